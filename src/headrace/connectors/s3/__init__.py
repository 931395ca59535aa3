"""AWS S3 and services with its protocol: folders of files as entities, read as streams and written as tables.

Start at `admin.py`, which describes the store type; `options.py` has its properties. Everything goes through boto3 and pyarrow (ADR 26).
"""
