"""The operations with which exports were tested in TensorFlow 2.19, 2.20 and 2.21.

Others are untested. If an export contains another operation, load the export in the
older versions (see `PYTHONS` in `test_every_task.py`), and add it here.
"""

# `tf.version.GRAPH_DEF_VERSION` of 2.19.
OLDEST_CONSUMER = 2129

_NAMES = """
Abs AddV2 All Any ArgMax Assert AssignVariableOp BatchMatMulV2 BatchMatMulV3 BiasAdd
BitwiseAnd BroadcastTo Cast ConcatV2 Const Cumsum DenseBincount DisableCopyOnRead
Einsum EnsureShape Equal Exp ExpandDims Fill FloorDiv FloorMod GatherNd GatherV2
Greater GreaterEqual Identity IdentityN If Less LessEqual LogSoftmax LogicalAnd
LogicalNot LogicalOr LowerBound MatMul Max Maximum Mean MergeV2Checkpoints Minimum Mul
Neg NoOp NotEqual OnesLike Pack Pad PadV2 PartitionedCall Placeholder Pow Prod
RaggedGather RaggedRange RaggedTensorToTensor Range ReadVariableOp RealDiv ReduceJoin
Reshape RestoreV2 Round Rsqrt SaveV2 Select SelectV2 SentencepieceOp
SentencepieceTokenizeOp SentencepieceTokenizeWithOffsetsOp Shape ShardedFilename
Sigmoid Size Slice Softmax SplitV Sqrt Square SquaredDifference Squeeze
StatefulPartitionedCall StaticRegexFullMatch StopGradient StridedSlice StringJoin
StringLength StringSplitV2 Sub Sum TFText>RoundRobinTrim Tanh TensorListFromTensor
TensorListGetItem TensorListReserve TensorListSetItem TensorListStack Tile TopKV2
Transpose UnicodeDecode UnicodeDecodeWithOffsets UnicodeEncode UnsortedSegmentMax
UnsortedSegmentMin UnsortedSegmentSum UpperBound VarHandleOp Where While
"""
TRIED_OPERATIONS = frozenset(_NAMES.split())
