"""Slots of the block that `accumulus.rewriting.compiled.rewrite_kernel` works on."""

from __future__ import annotations

from typing import Final

#: Addresses of arrays over nodes: operation, three arguments, sign, uses, first use, whether it must stay as it is,
#: whether it waits to be renewed, whether its number is free.
CODES, ARGUMENTS, SIGNS, USES, HEADS, FROZEN, QUEUED, FREED = range(8)
#: Addresses of arrays over arguments: the next and the previous use of the same node.
NEXTS, PREVIOUS = range(8, 10)
#: Addresses of arrays over operations: price, number of arguments, properties.
WEIGHTS, ARITIES, PROPERTIES = range(10, 13)
#: Addresses: hash table of nodes, log of writes, stack, queue of nodes to renew, free numbers, nodes that a move
#: made or dropped, trees, -ln of random numbers.
TABLE, LOG, STACK, QUEUE, FREE, TOUCHED, TREES, THRESHOLDS = range(13, 21)
#: Integers: bits of the table's size, limits of arrays, fill of arrays.
TABLE_BITS, NODE_LIMIT, LOG_LIMIT, NEXT, LOGGED, STACKED, QUEUED_COUNT, FREE_COUNT, TOUCHED_COUNT = range(21, 30)
#: Integers: cost, node of the move, what went wrong, random numbers, next node of a sweep, what to do.
COST, TARGET, FAILED, RANDOM, AT, MODE, VISITS, INLINE = range(30, 38)
#: Integers: moves that were tried, that changed something, that were accepted; best cost.
TRIED, CHANGED, ACCEPTED, BEST = range(38, 42)
#: Floats: temperature and its factor per visit.
TEMPERATURE, COOLING = range(42, 44)
#: Addresses of arrays: operations of a program (code and three references), the value of each reference, its outputs,
#: the constants' values; the best definitions so far.
PROGRAM, MEANINGS, OUTPUTS, NUMBERS, BEST_CODES, BEST_ARGUMENTS, BEST_SIGNS = range(44, 51)
#: Integers: sizes of the program, numbers of nodes of the best, the first output's;
#: whether there are choices.
INPUTS, LENGTH, OUTPUT_COUNT, BEST_NEXT, FIRST_OUTPUT, CHOICES = range(51, 57)
#: Addresses: nodes of a linear combination, and their coefficients.
TERMS, COEFFICIENTS = range(57, 59)
#: Address: whether a sum takes up a product. Integer: by how much less both cost then.
FUSED, CREDIT = range(59, 61)
#: Integer: moves since the best was kept.
UNKEPT: Final = 61
SLOTS: Final = 62
#: Numbers for each operation of a program: its code, three references, and whether it has to stay as it is.
PROGRAM_FIELDS: Final = 5
#: In the last field: that it has to stay, as it is, even if nothing needs it in the end.
FOR_LIFE: Final = 2

#: Node numbers of constants that every program has.
ZERO, ONE, TWO = 1, 2, 3
#: Codes beyond those of the table of operations.
CONSTANT, OUTPUT = 254, 255
#: Bits of PROPERTIES.
COMMUTATIVE, ODD, EVEN = 1, 2, 4
#: What a call of the kernel does.
ANNEAL, SWEEP, BUILD, KEEP = range(4)
#: Fields of an entry of a tree.
NODE, SIGN, LEFT, RIGHT, VALUE, REMOVED = range(6)
FIELDS: Final = 6
#: Entries of a tree, at most, and number of trees.
TREE_SIZE: Final = 64
TREE_COUNT: Final = 3
#: Terms of a linear combination, at most.
TERM_COUNT: Final = 48
THRESHOLD_COUNT: Final = 1024
