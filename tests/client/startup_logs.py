"""Start-up logs as the engines write them, each with the figures of a real run and no more lines than say something."""

LLAMA_8B = """\
INFO 12-01 09:00:01 [api_server.py:1896] vLLM API server version 0.19.0
(APIServer pid=1) INFO 12-01 09:00:01 [utils.py:233] non-default args: {'model': 'meta-llama/Llama-3.1-8B-Instruct', \
'max_model_len': 8192, 'gpu_memory_utilization': 0.95, 'max_num_seqs': 1024, 'max_num_batched_tokens': 8192}
(EngineCore pid=7) INFO 12-01 09:00:09 [core.py:93] Initializing a V1 LLM engine (v0.19.0) with config: \
model='meta-llama/Llama-3.1-8B-Instruct', speculative_config=None, dtype=torch.bfloat16, max_seq_len=8192, \
tensor_parallel_size=1, pipeline_parallel_size=1, data_parallel_size=1, quantization=None, enforce_eager=False, \
kv_cache_dtype=auto, enable_prefix_caching=True
(EngineCore pid=7) INFO 12-01 09:00:10 [cuda.py:300] device: NVIDIA H100 80GB HBM3
\x1b[36m(EngineCore pid=7)\x1b[0m INFO 12-01 09:00:20 [gpu_model_runner.py:4000] Model loading took 14.99 GiB and 5 s
(EngineCore pid=7) INFO 12-01 09:00:40 [gpu_worker.py:400] Available KV cache memory: 58.11 GiB
(EngineCore pid=7) INFO 12-01 09:00:40 [kv_cache_utils.py:1300] GPU KV cache size: 476,000 tokens
(EngineCore pid=7) INFO 12-01 09:00:40 [kv_cache_utils.py:1305] Maximum concurrency for 8,192 tokens per request: 58.11x
(EngineCore pid=7) INFO 12-01 09:01:00 [gpu_model_runner.py:5000] Graph capturing finished in 20 secs, took 0.91 GiB
"""

GPT_OSS_20B = """\
(APIServer pid=1) INFO [utils.py:233] non-default args: {'model_tag': 'openai/gpt-oss-20b', 'model': 'openai/gpt-oss-20b', \
'max_model_len': 8192, 'tensor_parallel_size': 2, 'max_num_seqs': 1024, 'max_num_batched_tokens': 8192}
(EngineCore pid=7) INFO [core.py:93] Initializing a V1 LLM engine (v0.19.0) with config: model='openai/gpt-oss-20b', \
dtype=torch.bfloat16, max_seq_len=8192, tensor_parallel_size=2, pipeline_parallel_size=1, quantization=mxfp4
(Worker_TP0 pid=8) INFO [gpu_worker.py:290] Free memory on device cuda:0 (77.18/79.19 GiB) on startup
(Worker_TP0 pid=8) INFO [gpu_model_runner.py:4000] Model loading took 7.01 GiB memory and 5 seconds
(Worker_TP1 pid=9) INFO [gpu_model_runner.py:4000] Model loading took 7.01 GiB memory and 6 seconds
(Worker_TP1 pid=9) INFO [gpu_worker.py:400] Available KV cache memory: 59.40 GiB
(Worker_TP0 pid=8) INFO [gpu_worker.py:400] Available KV cache memory: 59.32 GiB
(EngineCore pid=7) INFO [kv_cache_utils.py:1300] GPU KV cache size: 2,591,776 tokens
(EngineCore pid=7) INFO [kv_cache_utils.py:1305] Maximum concurrency for 8,192 tokens per request: 316.07x
(Worker_TP0 pid=8) INFO [gpu_model_runner.py:5000] Graph capturing finished in 9 secs, took 1.09 GiB
"""

QWEN3_32B_REFUSED = """\
INFO [utils.py:233] non-default args: {'model': 'Qwen/Qwen3-32B', 'max_model_len': 32000}
INFO [gpu_model_runner.py:1] Model loading took 61.03 GiB and 20 seconds
INFO [gpu_worker.py:1] Available KV cache memory: 4.45 GiB
ERROR [core.py:1] ValueError: To serve at least one request with the models's max seq len (32000), (7.81 GiB KV cache is \
needed, which is larger than the available KV cache memory (4.45 GiB). Based on the available memory, the estimated maximum \
model length is 18224. Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.
"""

QWEN_V0_WITHOUT_ROOM = """\
INFO 02-20 10:00:00 api_server.py:840] vLLM API server version 0.7.3
INFO 02-20 10:00:00 api_server.py:841] args: Namespace(model='Qwen/Qwen2.5-7B-Instruct', max_model_len=4096, \
gpu_memory_utilization=0.7, max_num_seqs=None, quantization=None, block_size=16, enforce_eager=True, \
tensor_parallel_size=1, kv_cache_dtype='auto')
INFO 02-20 10:00:30 model_runner.py:1115] Loading model weights took 5.2032 GB
INFO 02-20 10:00:40 worker.py:267] the current vLLM instance can use total_gpu_memory (8.00GiB) x \
gpu_memory_utilization (0.70) = 5.60GiB
INFO 02-20 10:00:40 worker.py:267] model weights take 5.20GiB; non_torch_memory takes 0.03GiB; PyTorch activation peak \
memory takes 1.42GiB; the rest of the memory reserved for KV Cache is -1.05GiB.
INFO 02-20 10:00:40 executor_base.py:111] # cuda blocks: 0, # CPU blocks: 4681
ERROR ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`.
"""

QWEN_V0_TOO_LONG = """\
INFO llm_engine.py:72] Initializing an LLM engine (v0.4.0) with config: model='Qwen/Qwen1.5-7B-Chat', \
dtype=torch.bfloat16, max_seq_len=32768, tensor_parallel_size=1, quantization=None, enforce_eager=False
INFO gpu_executor.py:94] # GPU blocks: 459, # CPU blocks: 512
ValueError: The model's max seq len (32768) is larger than the maximum number of tokens that can be stored in KV cache \
(7344). Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.
"""

DEEPSEEK_OUT_OF_MEMORY = """\
INFO non-default args: {'model': 'deepseek-ai/DeepSeek-R1', 'max_model_len': 16000}
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.50 GiB. GPU 0 has a total capacity of 79.18 GiB of which \
3.33 GiB is free.
"""

QWQ_32B_SGLANG = """\
[2025-02-20 10:00:00] server_args=ServerArgs(model_path='Qwen/QwQ-32B', tokenizer_path='Qwen/QwQ-32B', dtype='auto', \
quantization=None, context_length=None, mem_fraction_static=0.85, max_running_requests=None, chunked_prefill_size=2048, \
page_size=1, tp_size=4, dp_size=1, ep_size=1, disable_radix_cache=False, disable_cuda_graph=False, kv_cache_dtype='auto', \
enable_dp_attention=False)
[2025-02-20 10:00:10 TP0] Init torch distributed ends. mem usage=0.13 GB
[2025-02-20 10:00:10 TP0] Load weight begin. avail mem=21.76 GB
[2025-02-20 10:00:40 TP0] Load weight end. type=Qwen2ForCausalLM, dtype=torch.bfloat16, avail mem=6.09 GB, mem usage=15.54 GB.
[2025-02-20 10:00:40 TP0] KV Cache is allocated. #tokens: 46611, K size: 1.42 GB, V size: 1.42 GB
[2025-02-20 10:00:40 TP0] Memory pool end. avail mem=2.09 GB
[2025-02-20 10:01:00 TP0] Capture cuda graph end. Time elapsed: 9.88 s. avail mem=0.52 GB. mem usage=0.93 GB.
[2025-02-20 10:01:00 TP0] max_total_num_tokens=46611, chunked_prefill_size=2048, max_prefill_tokens=16384, \
max_running_requests=2049, context_len=131072
"""

LLAMA_8B_TENSORRT_LLM = """\
[TensorRT-LLM] TensorRT-LLM version: 0.17.0
[TensorRT-LLM][INFO] Engine version 0.17.0 found in the config file, assuming engine(s) built by new builder API.
[TensorRT-LLM][INFO] TRTGptModel maxBatchSize: 2048
[TensorRT-LLM][INFO] TRTGptModel maxSequenceLen: 131072
[TensorRT-LLM][INFO] TRTGptModel maxNumTokens: 8192
[TensorRT-LLM][INFO] Number of tokens per block: 64.
[TensorRT-LLM][INFO] [MemUsageChange] Allocated 26.91 GiB for max tokens in paged KV cache (220480).
"""

SEVEN_BILLION_TENSORRT_LLM = """\
[TensorRT-LLM][INFO] Loaded engine size: 6678 MiB
[TensorRT-LLM][INFO] [MemUsageChange] Allocated 43.29 MiB for execution context memory.
[TensorRT-LLM][INFO] Memory usage when calculating max tokens in paged kv cache: total: 79.10 GiB, available: 70.48 GiB
[TensorRT-LLM][INFO] Number of blocks in KV cache primary pool: 4060
[TensorRT-LLM][INFO] Number of tokens per block: 64.
[TensorRT-LLM][INFO] [MemUsageChange] Allocated 63.44 GiB for max tokens in paged KV cache (259840).
"""

GPT_OSS_SGLANG = """\
[2026-05-10 10:00:00] SGLang version 0.5.10
[2026-05-10 10:00:00] server_args=ServerArgs(model_path='openai/gpt-oss-20b', context_length=None, tp_size=1, dp_size=1)
[2026-05-10 10:00:10] Load weight begin. avail mem=78.60 GB
[2026-05-10 10:00:40] Load weight end. type=GptOssForCausalLM, quant=mxfp4, avail mem=64.00 GB, mem usage=14.60 GB.
[2026-05-10 10:00:40] Use sliding window memory pool. full_layer_tokens=1710, swa_layer_tokens=1368
[2026-05-10 10:00:41] KV Cache is allocated. #tokens: 1368, K size: 0.02 GB, V size: 0.02 GB
[2026-05-10 10:00:41] KV Cache is allocated. #tokens: 1710, K size: 0.03 GB, V size: 0.03 GB
[2026-05-10 10:00:41] SWAKVPool mem usage: 0.10 GB, swa size: 1368, full size: 1710
[2026-05-10 10:01:00] max_total_num_tokens=1710, chunked_prefill_size=8192, max_running_requests=48, context_len=131072
"""

NEMOTRON_SGLANG = """\
[2026-09-09 11:57:18] server_args=ServerArgs(model_path='nvidia/NVIDIA-Nemotron-Nano-9B-v2', tp_size=1)
[2026-09-09 11:57:18] Mamba Cache is allocated. max_mamba_cache_size: 48, conv_state size: 0.09GB, ssm_state size: 6.46GB \
intermediate_ssm_state_cache size: 1.00GB intermediate_conv_window_cache size: 0.25GB
[2026-09-09 11:57:18] KV Cache is allocated. #tokens: 2618868, K size: 19.98 GB, V size: 19.98 GB
[2026-09-09 11:57:27] max_total_num_tokens=2618868, chunked_prefill_size=-1, max_prefill_tokens=16384, \
max_running_requests=48, context_len=16384, available_gpu_mem=13.38 GB
"""

SHORTENED_TENSORRT_LLM = """\
[TensorRT-LLM] TensorRT-LLM version: 0.16.0
[TensorRT-LLM][INFO] TRTGptModel maxBatchSize: 64
[TensorRT-LLM][INFO] TRTGptModel maxSequenceLen: 32768
[TensorRT-LLM][INFO] TRTGptModel maxNumTokens: 8192
[TensorRT-LLM][INFO] Memory usage when calculating max tokens in paged kv cache: total: 22.18 GiB, available: 1.42 GiB
[TensorRT-LLM][INFO] Number of blocks in KV cache primary pool: 82
[TensorRT-LLM][WARNING] maxAttentionWindow and maxSequenceLen are too large for at least one sequence to fit in kvCache. \
they are reduced to 5185
[TensorRT-LLM][WARNING] maxInputLen is reduced to 5184
[TensorRT-LLM][INFO] Number of tokens per block: 64.
[TensorRT-LLM][INFO] [MemUsageChange] Allocated 1.28 GiB for max tokens in paged KV cache (5248).
"""

PYTORCH_TENSORRT_LLM = """\
[TensorRT-LLM] TensorRT LLM version: 1.2.0rc2
[TensorRT-LLM][INFO] Max KV cache blocks per sequence: 4096 [window size=131072], tokens per block=32, primary blocks=259, \
secondary blocks=0
[TensorRT-LLM][INFO] [MemUsageChange] Allocated 0.56 GiB for max tokens in paged KV cache (8288).
[12/20/2025-04:21:51] [TRT-LLM] [I] Memory used after loading model weights (inside torch) in memory usage profiling: 63.50 GiB
[12/20/2025-04:21:51] [TRT-LLM] [I] Peak memory during memory usage profiling (torch + non-torch): 113.65 GiB, available KV \
cache memory when calculating max tokens: 5.95 GiB, fraction is set 0.9, kv size is 73728. device total memory 119.70 GiB, , \
tmp kv_mem 0.56 GiB
[12/20/2025-04:21:51] [TRT-LLM] [I] Estimated max memory in KV cache : 5.95 GiB
[TRT-LLM] [W] Attention window size 131072 exceeds upper bound 86720 for available blocks. Reducing to 86720.
[TensorRT-LLM][INFO] Max KV cache blocks per sequence: 2710 [window size=86720], tokens per block=32, primary blocks=2710, \
secondary blocks=0
[TensorRT-LLM][INFO] [MemUsageChange] Allocated 5.95 GiB for max tokens in paged KV cache (86720).
"""

NOTHING = """\
2026-01-01 nginx: ready for connections
GET /healthz 200
"""
