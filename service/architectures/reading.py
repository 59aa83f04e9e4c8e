"""From a config.json to an Architecture: finds the text decoder, the storage of its weights, and the reader."""

from collections.abc import Mapping
from dataclasses import replace

from service.architectures.architecture import Architecture
from service.architectures.assembly import Source
from service.architectures.decoder import read_decoder
from service.architectures.fields import Fields, mapping
from service.architectures.generic import read_generic
from service.architectures.quantization import storage_of
from service.architectures.registry import DIALECTS, READERS, SAME_AS, TEXT_SECTIONS
from service.architectures.vision import tower_weights


def read(config: Mapping[str, object], *, quantization: Mapping[str, object] | None = None) -> Architecture:
    """The architecture that a Hugging Face config.json describes.

    ``quantization`` is the content of a separate hf_quant_config.json, where the checkpoint has one; a quantisation
    block in the configuration itself is used where it is complete. Raises ``UnreadableConfig`` with the offending field
    when a key is missing, malformed or out of range, or the family is unknown and its keys do not suffice.

    Pure: no files, no network, nothing kept between calls. Layers are limited to 1,000.
    """
    top = Fields(mapping("config", config))
    text = _text_section(top)
    family = top.text("model_type", "") or text.text("model_type", "")
    source = Source(family=family, top=top, text=text, storage=storage_of(top, text, quantization))
    return _read(source)


def _text_section(top: Fields) -> Fields:
    for name in TEXT_SECTIONS:
        section = top.section(name)
        if section is not None:
            return section
    return top


def _read(source: Source) -> Architecture:
    names = dict.fromkeys((source.text.text("model_type", ""), source.family))
    for name in names:
        known = _variant(SAME_AS.get(name, name), source.text)
        reader = READERS.get(known)
        if reader is not None:
            return reader(source)
        dialect = DIALECTS.get(known)
        if dialect is not None:
            return _read_dialect(source, known)
    return read_generic(source)


def _variant(name: str, text: Fields) -> str:
    """One model_type that stands for two layouts, told apart by a key."""
    return "chatglm_1" if name == "chatglm" and text.has("inner_hidden_size") else name


def _read_dialect(source: Source, name: str) -> Architecture:
    dialect = DIALECTS[name]
    hidden = dialect.fields(source.text).count("hidden_size")
    towers, notes = tower_weights(source.top, hidden)
    architecture = read_decoder(source, dialect, towers=towers)
    return replace(architecture, notes=architecture.notes + notes) if notes else architecture
