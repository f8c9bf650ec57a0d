/// tinyflow.h: a small framework in the manner of TinyFlow (2016), on Weft. Programs
/// need no other header.
#pragma once

#include "tinyflow/check_nan.h"
#include "tinyflow/checkpoint.h"
#include "tinyflow/dataset.h"
#include "tinyflow/graph.h"
#include "tinyflow/loader.h"
#include "tinyflow/loop.h"
#include "tinyflow/nn.h"
#include "tinyflow/ops.h"
#include "tinyflow/rnn.h"
#include "tinyflow/session.h"
#include "tinyflow/text.h"
#include "tinyflow/train.h"
