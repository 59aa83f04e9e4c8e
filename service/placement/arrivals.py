"""Pods of a snapshot → what lies there and stays, and jobs that wait."""

from collections.abc import Iterable, Sequence

from service.placement.cluster import DEVICE_RESOURCES, NVIDIA_GPU, Pod
from service.placement.policies import Job


def background_and_jobs(pods: Iterable[Pod], *, with_waiting: bool = True) -> tuple[list[Pod], list[Job]]:
    """Splits pods into those that work where they lie, and jobs that wait for something.

    A job is a gang of which some pods wait, or which is short of pods to work at all; or a pod on its own that waits. Jobs come
    in the order in which their first pods were made.

    Args:
        pods: those of a snapshot.
        with_waiting: whether pods that wait are jobs. Otherwise they are left out, and gangs count as what lies of them.
    """
    gangs: dict[tuple[str, str], list[Pod]] = {}
    background, jobs = [], []
    for pod in sorted(pods, key=lambda pod: (pod.created, pod.full_name)):
        if not pod.node_name and not with_waiting:
            continue
        if pod.gang is not None:
            gangs.setdefault((str(pod.gang.spelling), pod.gang.key), []).append(pod)
        elif pod.node_name:
            background.append(pod)
        else:
            jobs.append(_job(pod.full_name, [pod], 1, is_gang=False))
    for (_, key), members in gangs.items():
        gang = members[0].gang
        needed = gang.needed(len(members)) if gang is not None else 1
        if all(pod.node_name for pod in members) and (len(members) >= needed or not with_waiting):
            background += members
        else:
            jobs.append(_job(key, members, needed, is_gang=True))
    jobs.sort(key=lambda job: (job.pods[0].created, job.pods[0].full_name))
    return background, jobs


def _job(name: str, pods: Sequence[Pod], min_pods: int, *, is_gang: bool) -> Job:
    return Job(
        name=name,
        pods=tuple(pods),
        min_pods=min_pods,
        device_resource=_device_resource(pods),
        priority=min(pod.priority for pod in pods),
        takes_shared_devices=True,  # whatever their pods ask for, a scheduler gives them what goes by that name
        is_gang=is_gang,
    )


def _device_resource(pods: Iterable[Pod]) -> str:
    asked = {resource for pod in pods for resource in pod.requests}
    whole: list[str] = [each for each in DEVICE_RESOURCES if each in asked]
    return next(iter(whole or sorted(each for each in asked if "/mig-" in each)), NVIDIA_GPU)
