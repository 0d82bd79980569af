"""What a coordinator and the sites of a consortium say to each other, whatever carries it: HTTPS or Flower.

fields       values as canonical bytes, whose lengths are checked before an array exists
message      a question with its round and its ticket, and the answer to it
operations   the fixed list: a message names one of them and carries its parameters; no code travels
exchange     what a transport does: bytes to a site and back, by a deadline
assembly     the coordinator's side: ask every site, check every answer, stop with one line
"""
