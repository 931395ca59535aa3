"""CREATE and UPDATE COMPUTE_POOL ask a real API whether the server may do what its launcher does."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.kubernetes import Namespace
from harness.session import open_session
from headrace.core.errors import ExternalError

pytestmark = pytest.mark.prove


async def test_a_pool_is_created_and_changed_if_the_server_has_the_role_of_the_chart(
    namespace: Namespace, tmp_path: Path
) -> None:
    settings = {
        **{"driver_port": 0, "driver_server": "h:7443", "kubernetes_image": "i", "kubernetes_claim": "c"},
        **{"checkpoint_folders": (str(tmp_path),), "kubernetes_config": namespace.kubeconfig(tmp_path)},
    }
    place = f"'compute_pool.master' = 'k8s://{namespace.url}', 'compute_pool.checkpoints' = 'file:{tmp_path}'"
    async with open_session(tmp_path / "data", **settings) as session:
        await session.run(f"CREATE COMPUTE_POOL near WITH ({place}); CREATE COMPUTE_POOL moved")
        bindings = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace.name}/rolebindings"
        namespace.server.request("DELETE", f"{bindings}/{namespace.account}")
        for statement in (
            f"CREATE COMPUTE_POOL far WITH ({place})",
            f"STOP COMPUTE_POOL moved; UPDATE COMPUTE_POOL moved WITH ({place})",
        ):
            with pytest.raises(ExternalError, match="may not create pods in the namespace") as refused:
                await session.run(statement)
            assert refused.value.span is not None
        near, moved = session.catalog.compute_pool("near"), session.catalog.compute_pool("moved")
        assert session.catalog.compute_pool("far") is None
        assert near is not None
        assert moved is not None
        assert (near.properties["compute_pool.master"], moved.properties) == (f"k8s://{namespace.url}", {})
