"""In which form an answer in parts is sent over REST: lines of JSON, a CSV or a workbook."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from google.protobuf.message import Message
from msgspec import Struct

from service.api.renderings import VARIES
from service.api.sweep_csv import SweepCsv
from service.api.sweep_xlsx import SweepXlsx
from tonnage.tabular import CSV, XLSX, TabularForm


class Form(Struct, frozen=True):
    """A form: its name in the URL, its media type, and what makes the body of one answer out of its parts."""

    name: str
    media_type: str
    encoder: Callable[[Message], Any]
    also: tuple[str, ...] = ()
    file_name: str = ""

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """What is sent with it beside its type."""
        disposition = f'attachment; filename="{self.file_name}"'.encode()
        return [(b"content-disposition", disposition), VARIES] if self.file_name else [VARIES]


def _by_descriptors(_: Message) -> Any:
    raise TypeError("lines of JSON are made from the descriptors")


NDJSON: Final = Form("ndjson", "application/x-ndjson", _by_descriptors, also=("json", "application/json"))


def _tabular(form: TabularForm, encoder: Callable[[Message], Any]) -> Form:
    return Form(form.name, form.media_type, encoder, file_name=f"tonnage-sweep{form.ending}")


#: Further forms by RPC.
FORMS: Final[Mapping[str, tuple[Form, ...]]] = MappingProxyType(
    {"RunSweep": (_tabular(CSV, lambda _: SweepCsv()), _tabular(XLSX, SweepXlsx))}
)


def offered_by(rpc: str) -> tuple[Form, ...]:
    """The forms of an RPC that streams, the usual one first."""
    return (NDJSON, *FORMS.get(rpc, ()))
