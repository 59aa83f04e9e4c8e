"""From one deployment to a fleet: the demand, the candidates, how much each carries, what that costs, and which to choose."""
