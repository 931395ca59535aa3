"""The Helm chart at a real API: what it accepts, and what the roles allow."""

from __future__ import annotations

import uuid

import pytest

from harness.kubernetes import KubernetesServer, Namespace, RefusedError
from tests.unit.deploy.chart import ALL, PODS, Manifest, manifests, server_pod

pytestmark = pytest.mark.prove

Right = tuple[str, str, str]


def rights(kubernetes: KubernetesServer, token: str, namespace: str) -> set[Right]:
    """Return groups of the API, resources and verbs that the owner of a token may use in a namespace."""
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": namespace},
    }
    answer = kubernetes.request(
        "POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", review, token=token
    )
    assert answer["status"]["incomplete"] is False
    return {
        (group, resource, verb)
        for rule in answer["status"]["resourceRules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


@pytest.mark.parametrize("values", [{}, PODS, ALL], ids=["defaults", "pods", "all"])
def test_every_object_of_the_chart_is_accepted(
    kubernetes: KubernetesServer, namespace: Namespace, values: Manifest
) -> None:
    kubernetes.warnings.clear()
    rendered = manifests(values, "other", namespace.name)
    for manifest in [*rendered.values(), server_pod(rendered, namespace.stateful_set_uid)]:
        if manifest["kind"] == "Pod":
            # Its service account does not exist after a dry run.
            manifest["spec"]["serviceAccountName"] = namespace.account
        kubernetes.create(manifest, namespace.name, dryRun="All")
    assert kubernetes.warnings == []


def test_the_roles_allow_what_is_needed_and_nothing_else(
    kubernetes: KubernetesServer, namespace: Namespace
) -> None:
    server = kubernetes.token(namespace.name, namespace.account)
    driver = kubernetes.token(namespace.name, namespace.driver_account)
    # Each account may ask who it is and what it may do, and read the certificates of authorities.
    everybody = rights(kubernetes, kubernetes.token(namespace.name, "default"), namespace.name)
    assert not [right for right in everybody if right[0] == ""]
    assert rights(kubernetes, server, namespace.name) - everybody == {
        *(("", "pods", verb) for verb in ("create", "get", "list", "delete")),
        ("", "pods/log", "get"),
        ("", "secrets", "create"),
    }
    verbs = ("create", "get", "list", "watch", "delete", "deletecollection")
    assert rights(kubernetes, driver, namespace.name) - everybody == {("", "pods", verb) for verb in verbs}
    for token in (server, driver):
        assert rights(kubernetes, token, "default") == everybody
        assert rights(kubernetes, token, "kube-system") == everybody


def test_requests_beyond_the_roles_are_refused(kubernetes: KubernetesServer, namespace: Namespace) -> None:
    server = kubernetes.token(namespace.name, namespace.account)
    driver = kubernetes.token(namespace.name, namespace.driver_account)
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s"},
        "stringData": {"HEADRACE_TOKEN": "t"},
    }
    own = f"/api/v1/namespaces/{namespace.name}"
    kubernetes.create(secret, namespace.name, token=server)
    refused = [
        (server, "GET", f"{own}/secrets/s"),
        (server, "GET", f"{own}/secrets"),
        (server, "DELETE", f"{own}/secrets/s"),
        (server, "GET", "/api/v1/namespaces/default/pods"),
        (server, "GET", "/api/v1/pods"),
        (server, "GET", "/api/v1/nodes"),
        (driver, "GET", f"{own}/secrets/s"),
        (driver, "GET", f"{own}/configmaps"),
        (driver, "GET", "/api/v1/namespaces/default/pods"),
    ]
    for token, method, path in refused:
        with pytest.raises(RefusedError, match="is forbidden") as refusal:
            kubernetes.request(method, path, token=token)
        assert refusal.value.code == 403
    for body in ({**secret, "metadata": {"name": "other"}}, _account_token()):
        path = "secrets" if body["kind"] == "Secret" else f"serviceaccounts/{namespace.account}/token"
        with pytest.raises(RefusedError, match="is forbidden"):
            kubernetes.request("POST", f"{own}/{path}", body, token=driver)
    with pytest.raises(RefusedError, match="401"):
        kubernetes.request("GET", f"{own}/pods", token=uuid.uuid4().hex)


def test_the_namespace_refuses_a_pod_that_is_not_confined(namespace: Namespace) -> None:
    """Show that other tests prove something: the pods of the chart and of the launcher are admitted here."""
    pod = server_pod(manifests(PODS, namespace=namespace.name), namespace.stateful_set_uid)
    del pod["spec"]["containers"][0]["securityContext"]["capabilities"]
    with pytest.raises(RefusedError, match=r"violates PodSecurity .*: unrestricted capabilities"):
        namespace.create_pod(pod)


def _account_token() -> Manifest:
    return {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
