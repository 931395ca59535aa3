"""Requirements of the machine: Java, jars, the JVM extension, the web page, Kafka.

Entry points: :func:`headrace.runtime.spark_jvm.spark_jvm`, :func:`headrace.runtime.jars.jars`,
:func:`headrace.runtime.extension.extension_jar`, :class:`headrace.runtime.kafka_broker.KafkaBroker`,
:func:`headrace.runtime.webpage.web_page`, and :func:`headrace.runtime.doctor.checks`, which says what is
missing.

May import: :mod:`headrace.core`. It starts processes but never imports pyspark, so that the server needs no
JVM.

To add a jar, write its coordinate under a group of ``jars.lock`` and run ``python scripts/lock_jars.py``.
To move to another Spark, change the ``[spark]`` group and the pin in ``pyproject.toml``; a test holds them
together.
"""
