"""A backbone whose pooler a task does not read."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keras import Model as _Model
else:
    _Model = object


class IdlePooler(_Model):
    """Keeps the pooler out of training, as a mixin that stands before `keras.Model`.

    It would get no gradient, of which Keras warns, and weight decay alone would move
    it. The backbone stays as it is: another task on it may train the pooler.
    """

    backbone: Any

    # A checkpoint may lack a pooler, too.
    uses_pooler = False

    def _split(self, variables: list[Any], trained: bool) -> list[Any]:
        idle = {id(variable) for variable in self.backbone.pooler.variables}
        return [v for v in variables if (v.trainable and id(v) not in idle) == trained]

    @property
    def trainable_variables(self) -> list[Any]:
        """The variables that training changes."""
        return self._split(self.variables, True) if self.trainable else []

    @property
    def non_trainable_variables(self) -> list[Any]:
        """The variables that training leaves alone, or that are no weights."""
        return self._split(self.variables, False) if self.trainable else self.variables

    @property
    def trainable_weights(self) -> list[Any]:
        """The weights that training changes."""
        return self._split(self.weights, True) if self.trainable else []

    @property
    def non_trainable_weights(self) -> list[Any]:
        """The weights that training leaves alone."""
        return self._split(self.weights, False) if self.trainable else self.weights
