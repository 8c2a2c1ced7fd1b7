"""Shared by the Kafka source and the Kafka sink: clients, options, requests, facts about the cluster."""

from tidegate.extras import Extra, require

require(Extra.KAFKA)
