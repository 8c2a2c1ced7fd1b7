"""The page, the REST interface and the metrics: every job of a storage, without a JVM and without the job's program.

Everything here is read through the facade `tidegate.operate`. `routes` is the closed table of what is served.
"""

from tidegate.extras import Extra, require

require(Extra.UI)
