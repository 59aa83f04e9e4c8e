"""The contracts of autoscalers, served so that they call us unchanged: each on a port of its own, off until configured."""
