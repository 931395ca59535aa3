"""Pools on Kubernetes and the Helm chart, against a real kube-apiserver."""
