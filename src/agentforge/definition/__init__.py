"""From YAML to a plan: source, spec, resolve, link, validate, lower. Reads only through the sources port.

source: a text and its tree of values with places. spec: the typed definition as written, before names are
resolved. level: one of the sources that may set a value; the strongest wins. place: file, line and column.
table: the keys of one mapping with their kinds of value; it reads, validates and describes the mapping.
block, branch: stages that several providers run in parallel, and one provider's part. link: resolves an id in
`inputs` to the node whose outputs it means. passes: how often the whole pipeline runs.
"""
