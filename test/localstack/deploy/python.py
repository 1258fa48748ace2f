"""Makes a table with the real Python zae-limiter, if there is none yet, and acquires from it.

    python.py TABLE ENTITY TIMES
"""

import sys
import warnings

import boto3
from zae_limiter import Limit, SyncRateLimiter, SyncRepository
from zae_limiter.schema import get_table_definition

warnings.simplefilter("ignore", DeprecationWarning)
table, entity, times = sys.argv[1], sys.argv[2], int(sys.argv[3])
db = boto3.client("dynamodb")
if table not in db.list_tables()["TableNames"]:
    db.create_table(**get_table_definition(table))
    SyncRepository(table).register_namespace("default")
limiter = SyncRateLimiter(SyncRepository.open("default", stack=table))
for _ in range(times):
    with limiter.acquire(entity, "api", {"rpm": 1}, limits=[Limit.per_minute("rpm", 10_000)]):
        pass
