"""`agentforge doctor`: what is usable on this machine."""
