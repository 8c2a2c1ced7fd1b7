"""What the source and the sink of Kafka both need: clients, options, the wire, the cluster."""

from tidegate.extras import Extra, require

require(Extra.KAFKA)
