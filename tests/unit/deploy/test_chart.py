"""Helm chart: rendered by Helm's own library, and validated by the schemas of Kubernetes' API."""

from __future__ import annotations

import helm_python
import kubernetes_validate
import pytest
import yaml

from headrace import __version__
from headrace.core.settings import SECRETS, Settings
from headrace.engine.kubernetes.pods import labels
from headrace.engine.outliving import outlives_s
from headrace.engine.pool_properties import Cluster, Place
from headrace.engine.sizes import Resources
from tests.unit.deploy.chart import ALL, DEPLOY, PODS, Manifest, manifests

API_VERSIONS = ("1.27", "1.37")
OWN_POD = ("POD_NAME", "POD_UID")


@pytest.mark.parametrize("values", [{}, PODS, ALL], ids=["defaults", "pods", "all"])
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
    assert pod["automountServiceAccountToken"] is (values is ALL)
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
    environment = {
        variable["name"]: variable["value"]
        for variable in container["env"]
        if variable["name"] not in OWN_POD
    }
    fields = {f"HEADRACE_{name.upper()}" for name in Settings.model_fields}
    assert environment.keys() <= fields
    assert not environment.keys() & set(SECRETS)
    assert environment["HEADRACE_ALLOWED_HOSTS"].endswith(".prod.svc.cluster.local,data.example.com")


def test_pools_on_kubernetes_have_what_the_launcher_uses() -> None:
    rendered = manifests(PODS)
    [container] = rendered["StatefulSet", "demo-headrace"]["spec"]["template"]["spec"]["containers"]
    values = {
        variable["name"].removeprefix("HEADRACE_").lower(): variable["value"]
        for variable in container["env"]
        if variable["name"] not in OWN_POD
    }
    settings = Settings(**values)
    service = rendered["Service", "demo-headrace-pods"]
    assert settings.driver_server == "demo-headrace-pods.prod.svc:7443"
    assert settings.driver_port in [port["port"] for port in service["spec"]["ports"]]
    assert ("PersistentVolumeClaim", settings.kubernetes_claim) in rendered
    assert ("ServiceAccount", settings.kubernetes_service_account) in rendered
    assert settings.checkpoint_folders == ("/mnt/headrace",)
    # The server finds its StatefulSet by its own pod, which it may read: drivers outlive the pod, and are deleted with the release.
    assert settings.kubernetes_owner == "$(POD_NAME)/$(POD_UID)"
    assert settings.driver_orphan_s == 300
    drivers = Resources(1024, Place("k8s://in-cluster", "/mnt/headrace", Cluster(1, 1, "1g")))
    assert outlives_s(settings, drivers) == 300
    # Nobody reads a secret, or reaches beyond the namespace.
    assert not [kind for kind, _ in rendered if kind.startswith("Cluster")]
    rules = [rule for (kind, _), each in rendered.items() if kind == "Role" for rule in each["rules"]]
    assert [rule["verbs"] for rule in rules if "secrets" in rule["resources"]] == [["create"]]
    # The policies select the pods of the launcher.
    driver = labels("c", "n")
    [server, pools] = [each for (kind, _), each in rendered.items() if kind == "NetworkPolicy"]
    assert pools["spec"]["podSelector"]["matchLabels"].items() <= driver.items()
    assert server["spec"]["ingress"][1]["from"][0]["podSelector"]["matchLabels"].items() <= driver.items()
    existing = manifests({"kubernetes": {"enabled": True, "checkpoints": {"existingClaim": "mine"}}})
    assert not [kind for kind, _ in existing if kind == "PersistentVolumeClaim"]


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
