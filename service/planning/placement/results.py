"""What is answered about clusters. Field for field the messages of placement_service.proto."""

from msgspec import Struct

from service.placement.policies import Step
from service.placement.results import Deadlock, JobOutcome, NodeGroupUse, Remedy


class SimulatePlacementResponse(Struct, frozen=True):
    """Where everything stands in the end."""

    num_devices: int
    num_devices_working: int
    num_devices_held_idle: int
    num_devices_free: int
    num_devices_stranded: int
    num_devices_unavailable: int
    end_seconds: float
    jobs: tuple[JobOutcome, ...]
    node_groups: tuple[NodeGroupUse, ...]
    deadlocks: tuple[Deadlock, ...]
    remedies: tuple[Remedy, ...]
    steps: tuple[Step, ...]
    num_steps: int
    notes: tuple[str, ...]
    assumptions: tuple[str, ...]
    catalogue_revision: str
