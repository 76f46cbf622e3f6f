"""A past run beside a plan: would it take the same course?"""
