"""From YAML to a plan: source, spec, resolve, check, lower. Reads only through the sources port."""
