"""Interventions."""
