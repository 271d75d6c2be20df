"""Constants that libraries import. Mobula has no Redis password of its own: this is the default
they pass around.
"""

REDIS_DEFAULT_PASSWORD = "5241590000000000"
DEFAULT_PORT = 6379
DEFAULT_OBJECT_STORE_MEMORY_PROPORTION = 0.3
