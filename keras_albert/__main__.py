"""`python -m keras_albert` is `keras-albert`."""

import sys

from keras_albert.cli import main

if __name__ == "__main__":
    sys.exit(main())
