"""``python -m service``, and ``tonnage-service``: loads the service with the garbage collector at rest, and runs it.

All that is imported stays. To look through it again and again while it comes takes a quarter of a start.
"""

import gc


def main() -> None:
    """Runs the service and ends the program with its exit code."""
    gc.disable()
    from service.main import main as run

    run()


if __name__ == "__main__":
    main()
