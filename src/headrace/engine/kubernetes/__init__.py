"""Compute pools on Kubernetes: the driver is a pod, which creates the pods of its executors. ADR 93.

`pods` contains the manifests, `api` the requests, `launch` a driver from its start to its end.
"""
