"""What can be asked of claims. Field for field the request messages of protos/tonnage/v1/claim_service.proto."""

from enum import StrEnum

from msgspec import Struct


class Quantity(StrEnum):
    """What a figure is of."""

    PEAK = "PEAK"
    MEMORY_BANDWIDTH = "MEMORY_BANDWIDTH"
    LINK_BANDWIDTH = "LINK_BANDWIDTH"
    MEMORY = "MEMORY"
    POWER = "POWER"
    CLOCK = "CLOCK"
    L2_CACHE = "L2_CACHE"
    COMPUTE_UNITS = "COMPUTE_UNITS"
    DEVICES = "DEVICES"
    NETWORK_BANDWIDTH = "NETWORK_BANDWIDTH"
    RATIO = "RATIO"
    PROCESS_SPEED = "PROCESS_SPEED"
    PROCESS_POWER = "PROCESS_POWER"
    PROCESS_DENSITY = "PROCESS_DENSITY"
    PROCESS_EFFICIENCY = "PROCESS_EFFICIENCY"
    LENGTH = "LENGTH"
    AREA = "AREA"
    SHARE_OF_EXPOSURE_FIELD = "SHARE_OF_EXPOSURE_FIELD"
    TRANSISTORS = "TRANSISTORS"
    MADE_IN = "MADE_IN"


class ClaimFields(Struct, frozen=True):
    """A claim by its fields; what is empty or None is not said."""

    subject: str
    value: float | None = None
    unit: str = ""
    quantity: Quantity | None = None
    precision: str = ""
    sparsity: str = ""
    num_devices: int | None = None
    baseline: str = ""
    direction: str = ""


class AuditClaimRequest(Struct, frozen=True):
    """Claims to audit."""

    text: str = ""
    claims: tuple[ClaimFields, ...] = ()
