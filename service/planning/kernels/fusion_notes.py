"""What to know about fusing besides bytes and seconds, with where it is said, and the default launch time."""

from typing import Final

from service.planning.kernels.results import SourcedNote
from service.planning.results import UsedFigure

_COMPILER: Final = "PyTorch documentation, torch.compile programming model: Dynamo core concepts"
_RECOMPILATION: Final = "PyTorch documentation, torch.compile programming model: dealing with recompilations"
_GRAPHS: Final = "Gray, Getting Started with CUDA Graphs, NVIDIA technical blog, 2019"

#: Back-to-back launches of a kernel of 2.9 µs, submission overlapped with execution, on a V100: 3.8 µs a launch.
LAUNCH_SECONDS: Final = 3.8e-6
LAUNCH_FIGURE: Final = UsedFigure(
    "launch_seconds",
    LAUNCH_SECONDS,
    "s",
    "measured",
    (_GRAPHS,),
    "time per launch of a 2.9 µs kernel submitted back to back on a V100; a framework's eager mode takes longer",
)

NOTES: Final = (
    SourcedNote(
        "the first call of a compiled function pays for tracing and code generation, seconds to minutes: count it against the "
        "calls that follow",
        _COMPILER,
    ),
    SourcedNote(
        "each compiled graph carries guards, checked at every call; where one fails, such as on a new shape, the function is "
        "compiled again, until a limit is reached and it runs eagerly. Marking dimensions as dynamic avoids it",
        _RECOMPILATION,
    ),
    SourcedNote(
        "Python that cannot be traced breaks the graph: what stands on the two sides of a break is never fused, and each side "
        "is launched by itself",
        _COMPILER,
    ),
    SourcedNote(
        "a CUDA Graph submits a chain of kernels at once; shapes and addresses are fixed when it is captured, so it needs "
        "static inputs and memory of its own, and a graph for each batch size. It saves submissions, not bytes",
        _GRAPHS,
    ),
)
