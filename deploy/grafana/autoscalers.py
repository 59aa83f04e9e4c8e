"""The dashboard of who runs autoscalers that ask the service, or deployments whose gauges they read."""

from typing import Final

from deploy.grafana.panels import JOB, Panel, Row, largest, quantile, rate

#: The services that autoscalers call, as the rules of alerts have them.
SERVICES: Final = "grpcplugin.Expander|externalscaler.ExternalScaler|dynamo.planner.plugin.v1.*"
_THEIRS: Final = f', grpc_service=~"{SERVICES}"'
_DESIRED: Final = largest("tonnage_desired_replicas", "deployment, role")
_CARRIED_EACH: Final = largest("tonnage_max_requests_per_second_per_replica", "deployment, role")

AUTOSCALERS: Final = (
    Row(
        "Do autoscalers get answers?",
        (
            Panel(
                "Calls by method",
                "One that stopped: its autoscaler no longer finds the service.",
                "reqps",
                (("{{grpc_method}}", rate("grpc_server_started_total", "grpc_method", _THEIRS)),),
                6,
            ),
            Panel(
                "Answers that are no OK",
                "Whoever gets them decides without us: the log has the reason.",
                "reqps",
                (
                    (
                        "{{grpc_service}} {{grpc_code}}",
                        rate("grpc_server_handled_total", "grpc_service, grpc_code", f'{_THEIRS}, grpc_code!="OK"'),
                    ),
                ),
                6,
            ),
            Panel(
                "99th percentile by method",
                "The Cluster Autoscaler waits 5 s. Streams last as long as they are listened to and are left out.",
                "s",
                (
                    (
                        "{{grpc_method}}",
                        quantile(0.99, "grpc_server_handling_seconds", "grpc_method", _THEIRS + ', grpc_type="unary"'),
                    ),
                ),
                6,
            ),
            Panel(
                "Not judged by memory",
                "The expander lets it pass. Models and devices: call them what the catalogue does.",
                "ops",
                (("{{what}}", rate("tonnage_expander_unjudged_total", "what")),),
                6,
            ),
        ),
    ),
    Row(
        "What does each deployment need?",
        (
            Panel(
                "Desired replicas",
                "Up and down without rest: its rule is too eager.",
                "none",
                (("{{deployment}} {{role}}", _DESIRED),),
            ),
            Panel(
                "Demand, and what the desired replicas carry",
                "Demand above it: max_replicas is too low.",
                "reqps",
                (
                    ("{{deployment}} demand", largest("tonnage_demand_requests_per_second")),
                    ("{{deployment}} {{role}}", f"{_DESIRED} * {_CARRIED_EACH}"),
                ),
            ),
            Panel(
                "Tokens per second, at most",
                "What the desired replicas yield within the service level.",
                "none",
                (("{{deployment}}", largest("tonnage_predicted_tokens_per_second")),),
            ),
            Panel(
                "Predicted times, at the percentile of the service level",
                "Near what was promised: no room for a burst.",
                "s",
                (
                    ("{{deployment}} first token", largest("tonnage_predicted_ttft_seconds")),
                    ("{{deployment}} further tokens", largest("tonnage_predicted_tpot_seconds")),
                ),
                12,
            ),
            Panel(
                "Observed over predicted times",
                "1 is as predicted. Far above for long: measure, and calibrate.",
                "none",
                (("{{deployment}} {{quantity}}", largest("tonnage_observed_to_predicted_ratio", "deployment, quantity")),),
                12,
            ),
        ),
    ),
    Row(
        "Is it known?",
        (
            Panel(
                "Deployments whose figures are known",
                "0: autoscalers see nothing and leave it as it is. The log has the reason.",
                "none",
                (("{{deployment}}", f"min by (deployment) (tonnage_deployment_up{{{JOB}}})"),),
            ),
            Panel(
                "Age of the figures",
                "Seconds. Rising: its source of demand does not answer.",
                "s",
                (("{{deployment}}", largest("tonnage_deployment_age_seconds")),),
            ),
            Panel(
                "Deployments file",
                "0: it has a fault, which the log tells, and what it said before holds.",
                "none",
                (("{{instance}}", f"tonnage_deployments_file_current{{{JOB}}}"),),
            ),
        ),
    ),
)
