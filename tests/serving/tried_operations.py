"""The operations with which exports were tested in TensorFlow 2.19, 2.20 and 2.21.

Others are untested. If an export contains another operation, load the export in the
older versions (see `OLDER_PYTHONS`), and add it here.
"""

import os

# The paths of the interpreters, separated by spaces, which have tensorflow and
# tensorflow-text of other versions than this one.
OLDER_PYTHONS = os.environ.get("KERAS_ALBERT_OLDER_TENSORFLOWS", "").split()

# `tf.version.GRAPH_DEF_VERSION` of 2.19.
OLDEST_CONSUMER = 2129

_NAMES = """
Abs AddV2 All Any ArgMax Assert AssignVariableOp BatchMatMulV2 BatchMatMulV3 BiasAdd
BitwiseAnd BroadcastTo Cast ConcatV2 Const Cumsum DenseBincount DisableCopyOnRead Einsum
EnsureShape Equal Erfc Exp ExpandDims FastWordpieceTokenizeWithOffsets Fill FloorDiv
FloorMod GatherNd GatherV2 Greater GreaterEqual Identity IdentityN If Less LessEqual
LogSoftmax LogicalAnd LogicalNot LogicalOr LowerBound MatMul Max Maximum Mean
MergeV2Checkpoints Minimum Mul Neg NoOp NotEqual OnesLike Pack Pad PadV2 PartitionedCall
Placeholder Pow Prod RaggedGather RaggedRange RaggedTensorToTensor Range ReadVariableOp
RealDiv ReduceJoin RegexSplitWithOffsets Reshape RestoreV2 Round Rsqrt SaveV2 Select
SelectV2 SentencepieceOp SentencepieceTokenizeOp SentencepieceTokenizeWithOffsetsOp
Shape ShardedFilename Sigmoid Size Slice Softmax SplitV Sqrt Square SquaredDifference
Squeeze StatefulPartitionedCall StaticRegexFullMatch StaticRegexReplace StopGradient
StridedSlice StringJoin StringLength StringSplitV2 Sub Sum TFText>RoundRobinTrim Tanh
TensorListFromTensor TensorListGetItem TensorListReserve TensorListSetItem
TensorListStack Tile TopKV2 Transpose UnicodeDecode UnicodeDecodeWithOffsets
UnicodeEncode UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentSum UpperBound
VarHandleOp Where While
"""
TRIED_OPERATIONS = frozenset(_NAMES.split())
