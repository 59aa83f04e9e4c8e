"""Answers in another form than JSON: a picture, or tables. Which RPC offers what follows from its answer, by no list.

An answer with a field ``svg`` is offered as a picture; one that the client's own tables know, as CSV and as a workbook.
"""

from collections.abc import Callable
from typing import Any, Final

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message
from msgspec import Struct

from tonnage.tabular import CSV, XLSX, TabularForm, csv_of, has_tables, workbook_of, xlsx_bytes
from tonnage.tabular.forms import file_name

#: The largest page that a list gives: with tables all pages are put together.
_PAGE_SIZE: Final = 500


class Rendering(Struct, frozen=True):
    """A form of an answer. ``body`` makes it of request and response; ``file_name`` is what a browser should call it."""

    name: str
    media_type: str
    body: Callable[[Message, Message], bytes]
    file_name: str = ""
    also: tuple[str, ...] = ()

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """What is sent with it beside type and length."""
        disposition = f'attachment; filename="{self.file_name}"'.encode()
        return [(b"content-disposition", disposition), VARIES] if self.file_name else [VARIES]


VARIES: Final = (b"vary", b"accept")


def _by_codec(_: Message, __: Message) -> bytes:
    raise TypeError("JSON is made by the codec")


JSON: Final = Rendering("json", "application/json", _by_codec)


def offered_by(answer: Descriptor) -> tuple[Rendering, ...]:
    """The forms that answers of this type have, JSON first."""
    further: list[Rendering] = []
    if "svg" in answer.fields_by_name:
        further.append(Rendering("svg", "image/svg+xml", lambda _, response: _picture(response)))
    if has_tables(answer.full_name):
        further.append(_tabular(answer, CSV, lambda _, response: csv_of(response).encode()))
        further.append(_tabular(answer, XLSX, lambda request, response: xlsx_bytes(workbook_of(request, response))))
    return (JSON, *further)


def _picture(response: Any) -> bytes:
    picture: str = response.svg
    return picture.encode()


def _tabular(answer: Descriptor, form: TabularForm, body: Callable[[Message, Message], bytes]) -> Rendering:
    return Rendering(form.name, form.media_type, body, file_name(answer.full_name, form))


def is_paged(request: Message) -> bool:
    """Whether it asks for a list, which is given page by page."""
    return "page_token" in request.DESCRIPTOR.fields_by_name


def all_pages(request: Message, ask: Callable[[Message], Message]) -> Message:
    """The answer to a request; of a list whose page is not said, all pages as one."""
    paged: Any = type(request)()
    paged.CopyFrom(request)
    if not is_paged(request) or paged.HasField("page_size") or paged.page_token:
        return ask(request)
    paged.page_size = _PAGE_SIZE
    answer = ask(paged)
    whole: Any = answer
    while whole.next_page_token:
        paged.page_token = whole.next_page_token
        whole.next_page_token = ""
        whole.MergeFrom(ask(paged))
    return answer
