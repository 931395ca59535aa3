"""Helm chart: rendered by Helm's own library, and validated by the schemas of Kubernetes' API."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import helm_python
import kubernetes_validate
import pytest
import yaml

from headrace import __version__
from headrace.core.settings import SECRETS, Settings

DEPLOY = Path(__file__).resolve().parents[3] / "deploy"
API_VERSIONS = ("1.27", "1.37")
ALL = {
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


def manifests(values: Manifest, name: str = "demo") -> dict[tuple[str, str], Manifest]:
    """Return the rendered manifests by kind and name."""
    with helm_python.Chart.load(str(DEPLOY / "helm" / "headrace")) as chart:
        texts = chart.render(values, name=name, namespace="prod")
    documents = [document for text in texts.values() for document in yaml.safe_load_all(text) if document]
    return {(document["kind"], document["metadata"]["name"]): document for document in documents}


@pytest.mark.parametrize("values", [{}, ALL], ids=["defaults", "all"])
@pytest.mark.parametrize("version", API_VERSIONS)
def test_manifests_have_the_schemas_of_the_api(values: Manifest, version: str) -> None:
    rendered = manifests(values)
    assert {kind for kind, _ in rendered} >= {
        "StatefulSet", "Service", "ServiceAccount", "NetworkPolicy", "PodDisruptionBudget"
    }  # fmt: skip
    for manifest in rendered.values():
        kubernetes_validate.validate(manifest, version, strict=True)


@pytest.mark.parametrize("values", [{}, ALL], ids=["defaults", "all"])
def test_pods_are_confined(values: Manifest) -> None:
    pod = manifests(values)["StatefulSet", "demo-headrace"]["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    [container] = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["resources"]["requests"].keys() == {"cpu", "memory"}
    assert container["resources"]["limits"].keys() == {"memory"}
    assert "USER 10001:10001\n" in (DEPLOY / "Containerfile").read_text()
    assert pod["securityContext"]["runAsUser"] == pod["securityContext"]["fsGroup"] == 10001


def test_selectors_match_the_pods_of_their_own_release() -> None:
    one, other = manifests({}, "one"), manifests({}, "headrace")
    labels = one["StatefulSet", "one-headrace"]["spec"]["template"]["metadata"]["labels"]
    foreign = other["StatefulSet", "headrace"]["spec"]["template"]["metadata"]["labels"]
    selectors = [
        one["StatefulSet", "one-headrace"]["spec"]["selector"]["matchLabels"],
        one["Service", "one-headrace"]["spec"]["selector"],
        one["PodDisruptionBudget", "one-headrace"]["spec"]["selector"]["matchLabels"],
        one["NetworkPolicy", "one-headrace"]["spec"]["podSelector"]["matchLabels"],
    ]
    for selector in selectors:
        assert selector.items() <= labels.items()
        assert not selector.items() <= foreign.items()


def test_probes_and_settings_are_those_of_the_server() -> None:
    [container] = manifests(ALL)["StatefulSet", "demo-headrace"]["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"headrace:{__version__}"
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "http", "scheme": "HTTPS"}
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    environment = {variable["name"]: variable["value"] for variable in container["env"]}
    fields = {f"HEADRACE_{name.upper()}" for name in Settings.model_fields}
    assert environment.keys() <= fields
    assert not environment.keys() & set(SECRETS)
    assert environment["HEADRACE_ALLOWED_HOSTS"].endswith(".prod.svc.cluster.local,data.example.com")


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_in_the_values_is_refused(name: str) -> None:
    with pytest.raises(helm_python.HelmRenderError, match=f"{name} is a secret"):
        manifests({"settings": {name: "x"}})


def test_the_port_for_clients_of_postgresql_requires_tls() -> None:
    with pytest.raises(helm_python.HelmRenderError, match="requires tlsSecretName"):
        manifests({"service": {"postgresPort": 5432}})


def test_the_containers_of_the_compose_file_are_confined() -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    server = compose["services"]["server"]
    assert server["read_only"] is True
    assert server["cap_drop"] == ["ALL"]
    assert server["ports"] == ["127.0.0.1:8080:8080"]
    assert not [name for name in server["environment"] if name in SECRETS]
