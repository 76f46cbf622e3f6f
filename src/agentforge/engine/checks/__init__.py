"""Reads what the program of a check left: its exit status, its output and its report. Applies the rules of
checks without a program.

- `outcome`: one outcome from all of them, by the check's parser and expectation.
- `criteria`: what the engine verifies of the criteria of an item.
- `findings`: the outcome of a rule about the files of the project.
- `junit`, `output`: the parsers. Their input comes from programs that agents can change:
  they raise nothing, take linear time, and keep a bounded number of failures.
- `red`: the outcome of a check whose tests have to fail.
- `tests`: the tests of a report by their ids, and the form in which they are kept.
- `regressions`: the outcome without the failures that were there before the first agent.
- `signature`: recognises the same failure in another run.
"""
