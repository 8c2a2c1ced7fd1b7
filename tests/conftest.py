"""Settings for all tests, and the servers that they share: each starts when the first test asks for it."""

from hypothesis import settings

from tests.support.chromium import chromium
from tests.support.galera import galera
from tests.support.hdfs import hdfs, hdfs_for_machines
from tests.support.hdfs_pair import hdfs_pair, hdfs_pair_server
from tests.support.jvm import quick_jvms
from tests.support.kafka_broker import broker
from tests.support.machines import machines
from tests.support.mariadb import mariadb
from tests.support.mysql8 import mysql8
from tests.support.other_s3 import moto, moto_server, versitygw, versitygw_server
from tests.support.postgres import postgres, preparing
from tests.support.redis import redis_cluster, redis_server, valkey
from tests.support.s3 import s3, s3_server
from tests.support.standalone import standalone
from tests.support.yarn import yarn

__all__ = [
    "broker",
    "chromium",
    "galera",
    "hdfs",
    "hdfs_for_machines",
    "hdfs_pair",
    "hdfs_pair_server",
    "machines",
    "mariadb",
    "moto",
    "moto_server",
    "mysql8",
    "postgres",
    "preparing",
    "redis_cluster",
    "redis_server",
    "s3",
    "s3_server",
    "standalone",
    "valkey",
    "versitygw",
    "versitygw_server",
    "yarn",
]

settings.register_profile("tidegate", deadline=None)  # a busy machine is no failure
settings.load_profile("tidegate")
quick_jvms()
