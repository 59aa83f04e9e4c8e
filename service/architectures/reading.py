"""From a config.json to an Architecture: finds the text decoder, the storage of its weights, and the reader."""

from collections.abc import Mapping

from msgspec.structs import replace

from service.architectures.architecture import Architecture
from service.architectures.assembly import Source
from service.architectures.decoder import Dialect, read_decoder
from service.architectures.fields import Fields, mapping
from service.architectures.generic import read_generic
from service.architectures.quantization import storage_of
from service.architectures.refusal import UnreadableConfig
from service.architectures.registry import BY_CLASS, DIALECTS, NESTED_DEFAULTS, READERS, SAME_AS, TEXT_SECTIONS
from service.architectures.vision import tower_weights


def read(config: Mapping[str, object], *, quantization: Mapping[str, object] | None = None) -> Architecture:
    """The architecture that a Hugging Face config.json describes.

    ``quantization`` is the content of a separate hf_quant_config.json, where the checkpoint has one; a quantisation
    block in the configuration itself is used where it is complete. Raises ``UnreadableConfig`` with the offending field
    when a key is missing, malformed or out of range, or the family is unknown and its keys do not suffice.

    Pure: no files and no network. Layers are limited to 1,000.
    """
    top = Fields(mapping("config", config))
    text = _text_section(top)
    family = top.text("model_type", "") or text.text("model_type", "")
    if len(family) > 100:
        raise UnreadableConfig(top.place("model_type"), "It is too long.", "Give the name of the family.")
    source = Source(family=family, top=top, text=text, storage=storage_of(top, text, quantization))
    return _read(source)


def _text_section(top: Fields) -> Fields:
    """The section of the text decoder; multimodal models with a "thinker" keep it one level deeper."""
    thinker = top.section("thinker_config")
    for name in TEXT_SECTIONS:
        section = (thinker or top).section(name)
        if section is not None:
            return section
    return thinker or top


def _read(source: Source) -> Architecture:
    for name in _names(source):
        reader = READERS.get(name)
        if reader is not None:
            return reader(source)
        if name in DIALECTS:
            return _read_dialect(source, DIALECTS[name])
    return read_generic(source)


def _names(source: Source) -> list[str]:
    """Under which names a reader may be found: the text section's model_type, the whole's, the class name."""
    found = [source.text.text("model_type", ""), source.family]
    for fields in (source.text, source.top):
        found += [BY_CLASS.get(name, "") for name in fields.texts("architectures") or []]
    known = [SAME_AS.get(name, name) for name in found if name]
    if source.text.has("block_configs"):  # pruned Nemotrons say nemotron-nas or deci, some of them llama
        known.insert(0, "nemotron_nas")
    if not known and source.text.given("ssm_cfg") == {}:  # state-spaces/mamba-* have no model_type
        known.append("mamba")
    # ChatGLM-6B and its successors share a model_type, told apart by a key.
    return ["chatglm_1" if name == "chatglm" and source.text.has("inner_hidden_size") else name for name in known]


def _read_dialect(source: Source, dialect: Dialect) -> Architecture:
    if source.text is not source.top:
        dialect = replace(dialect, defaults={**NESTED_DEFAULTS.get(dialect.reader, {}), **dialect.defaults})
    hidden = dialect.fields(source.text).count("hidden_size")
    towers, notes = tower_weights(source.top, hidden)
    architecture = read_decoder(source, dialect, towers=towers)
    return replace(architecture, notes=architecture.notes + notes) if notes else architecture
