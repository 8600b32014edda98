"""`python -m keras_albert` is `keras-albert`.

With Python itself, `keras_albert/__init__.py` runs it, before it loads anything; this
file is for other programs that run modules, such as profilers.
"""

import sys

from keras_albert_cli import main

if __name__ == "__main__":
    sys.exit(main())
