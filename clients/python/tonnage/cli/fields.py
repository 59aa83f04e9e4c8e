"""Which option sets which field of a request, so that a violation or a cure can name the option to change."""

import re

_PLACE = re.compile(r"\[\d+\]")  # of a value in an axis
_OPTIONS = {
    "model": "--model",
    "model.name": "--model",
    "model.hf_config": "--config",
    "model.hf_quantization": "--quantization",
    "model.dense.num_parameters": "--num-parameters",
    "model.dense.num_layers": "--num-layers",
    "model.dense.num_query_heads": "--num-query-heads",
    "model.dense.num_kv_heads": "--num-kv-heads",
    "model.dense.head_dim": "--head-dim",
    "model.dense.hidden_size": "--hidden-size",
    "accelerator": "--accelerator",
    "accelerator.name": "--accelerator",
    "accelerator.inline": "--accelerator-file",
    "engine": "--engine",
    "engine.name": "--engine",
    "engine.version": "--engine-version",
    "node": "--node",
    "node.name": "--node",
    "parallelism.tensor": "--tensor",
    "parallelism.pipeline": "--pipeline",
    "parallelism.expert": "--expert",
    "parallelism.attention_data": "--attention-data",
    "addresses_bytes": "--address",
    "structure.struct_bytes": "--struct-bytes",
    "structure.field_offset_bytes": "--field-offset-bytes",
    "resource_usage_text": "--resource-usage",
    "operators": "--operators",
    "price_list.prices": "--price",
    "precision.weights": "--weights",
    "precision.kv_cache": "--kv-cache",
    "precision.compute": "--compute",
    "service_level": "--ttft, --tpot, --end-to-end-seconds",
    "workload": "--concurrency",
    "observation.num_requests": "--observed-requests",
    "observation.tpot_seconds": "--observed-tpot-seconds",
    "observation.ttft_seconds": "--observed-ttft-seconds",
    "models": "--model",
    "accelerators": "--accelerator",
    "shapes": "--shape",
    "precisions": "--precision",
    "batch_sizes": "--batch-size",
    "engines": "--engine",
    "concurrencies": "--concurrency",
    "lengths": "--length",
    "observe": "--prometheus-url",
    "observe.labels": "--prometheus-label",
    "observe.window_seconds": "--window-seconds",
    "observe.metric_prefix": "--metric-prefix",
}
_SAME_NAME = (
    "active_mask",
    "barriers_per_block",
    "base_alignment_bytes",
    "batch_size",
    "blocks_per_cluster",
    "concurrency",
    "context_tokens",
    "devices_per_node",
    "element_bytes",
    "launch_seconds",
    "max_num_nodes",
    "memory_utilization_ratio",
    "num_devices",
    "num_sms",
    "offset_elements",
    "peak_precision",
    "phase",
    "precision",
    "registers_per_thread",
    "sequence_tokens",
    "shared_memory_bytes_per_block",
    "shared_memory_carveout_bytes_per_sm",
    "stride_elements",
    "threads_per_block",
    "tokens_per_second",
)


def option_of(field: str) -> str:
    """The option that sets a request field given by its path. Empty where there is none.

    >>> option_of("parallelism.tensor"), option_of("context_tokens"), option_of("model.hf_config.num_hidden_layers")
    ('--tensor', '--context-tokens', '--config')
    >>> option_of("engine.name"), option_of("engine.max_model_len")
    ('--engine', '--max-model-len')
    >>> option_of("workload"), option_of("workload.disaggregation.decode_replicas"), option_of("observe.prometheus_url")
    ('--concurrency', '--decode-replicas', '--prometheus-url')
    >>> option_of("models[2].name"), option_of("batch_sizes[0]")
    ('--model', '--batch-size')
    """
    field = _PLACE.sub("", field)
    if field not in _OPTIONS and field.startswith("engine."):
        field = field.removeprefix("engine.")
        return "--" + field.replace("_", "-")
    if field.startswith("workload."):
        return "--" + field.rpartition(".")[2].replace("_", "-")
    if field in _SAME_NAME:
        return "--" + field.replace("_", "-")
    while field:
        if field in _OPTIONS:
            return _OPTIONS[field]
        field = field.rpartition(".")[0]
    return ""
