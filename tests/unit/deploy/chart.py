"""The Helm chart, rendered by Helm's own library."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import helm_python
import yaml

from harness.kubernetes import KubernetesServer, Namespace

DEPLOY = Path(__file__).resolve().parents[3] / "deploy"
PODS = {"kubernetes": {"enabled": True}}
ALL = {
    **PODS,
    "disruptionBudget": {"driversMinAvailable": 1},
    "image": {"pullSecrets": [{"name": "pull"}]},
    "secretName": "headrace",
    "tlsSecretName": "headrace-tls",
    "service": {"postgresPort": 5432},
    "settings": {"HEADRACE_EGRESS_ALLOWED": "private"},
    "allowedHosts": ["data.example.com"],
    "data": {"storageClassName": "fast"},
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "data", "operator": "Exists"}],
    "podAnnotations": {"a": "b"},
}

Manifest = dict[str, Any]


def manifests(
    values: Manifest, name: str = "demo", namespace: str = "prod"
) -> dict[tuple[str, str], Manifest]:
    """Return the rendered manifests by kind and name."""
    with helm_python.Chart.load(str(DEPLOY / "helm" / "headrace")) as chart:
        texts = chart.render(values, name=name, namespace=namespace)
    documents = [document for text in texts.values() for document in yaml.safe_load_all(text) if document]
    return {(document["kind"], document["metadata"]["name"]): document for document in documents}


def server_pod(rendered: dict[tuple[str, str], Manifest], uid: str) -> Manifest:
    """Return the pod that the controller of the StatefulSet of that uid creates."""
    [(name, stateful)] = [(name, each) for (kind, name), each in rendered.items() if kind == "StatefulSet"]
    template, pod = stateful["spec"]["template"], f"{name}-0"
    claims = [
        {
            "name": claim["metadata"]["name"],
            "persistentVolumeClaim": {"claimName": f"{claim['metadata']['name']}-{pod}"},
        }
        for claim in stateful["spec"]["volumeClaimTemplates"]
    ]
    owner = {
        **{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name, "uid": uid},
        **{"controller": True, "blockOwnerDeletion": True},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**template["metadata"], "name": pod, "ownerReferences": [owner]},
        "spec": {**template["spec"], "volumes": [*template["spec"]["volumes"], *claims]},
    }


def installed(server: KubernetesServer, name: str) -> Namespace:
    """Create a namespace of a kube-apiserver with the objects of the chart, as `helm install` does."""
    chart = manifests(PODS, namespace=name).values()
    return Namespace(server, name, chart, account="demo-headrace", driver_account="demo-headrace-driver")
