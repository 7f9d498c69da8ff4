"""From a program's tree to a flow of operations, or to the reasons why it is none."""
