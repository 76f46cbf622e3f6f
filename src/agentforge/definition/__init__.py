"""From YAML to a plan: source, spec, resolve, link, validate, lower. Reads only through the sources port.

source: a text and its tree of values with places. spec: what was written, typed, before any name is looked
up. level: one of the places that may say the same thing; the strongest wins. place: file, line and column.
table: the keys of one mapping, each with its kind of value; it reads, validates and describes the mapping.
block, branch: stages that several providers run at once, and the part of one of them. link: an id in `inputs`
to the place in the plan whose outputs it means. passes: how often a whole pipeline runs.
"""
