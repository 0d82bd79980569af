"""One function per verb: a table or a model in, a typed result out. The command line and Python call the same ones."""
