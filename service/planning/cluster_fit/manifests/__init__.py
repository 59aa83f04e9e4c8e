"""Manifests that start the replicas of an answer, as objects of Kubernetes and of those that extend it.

Sources: kubernetes-sigs/lws ``api/leaderworkerset/v1``; kubernetes-sigs/scheduler-plugins ``apis/scheduling/v1alpha1``;
volcano-sh/apis ``pkg/apis/scheduling/v1beta1``; kedacore/keda ``apis/keda/v1alpha1``; kubernetes/autoscaler
``cluster-autoscaler/apis`` (provisioningrequest v1, capacitybuffer v1beta1); the options of vLLM, SGLang and TensorRT-LLM.
"""
