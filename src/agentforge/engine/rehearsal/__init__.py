"""Compares a past run with a plan: would it take the same course?"""
