"""A real kube-apiserver with etcd and the garbage collector, for the tests of pools on Kubernetes and of the Helm chart.

There are no nodes: no scheduler, no kubelet, no containers. Entry points: `KubernetesServer`, `Namespace`.
"""

from harness.kubernetes.namespace import Namespace
from harness.kubernetes.server import KubernetesServer, RefusedError

__all__ = ["KubernetesServer", "Namespace", "RefusedError"]
