"""``python -m tonnage``: the command line, where the script is not on the path."""

from tonnage.cli import main

main()
