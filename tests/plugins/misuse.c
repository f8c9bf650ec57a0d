/* misuse.c: passes that use the functions of the table as they are meant, and as they are not:
 * every wrong call must give its status, change nothing and crash nothing. Each pass fails with the
 * number of the first line that is not as expected. */
#include <stdio.h>
#include <string.h>

#include "weft/plugin.h"

static const WeftHost* weft;

#define EXPECT(condition)                                                                       \
  do {                                                                                          \
    if (!(condition)) {                                                                         \
      static char text[300];                                                                    \
      snprintf(text, sizeof text, "line %d: %s; %s", __LINE__, #condition, weft->last_error()); \
      return weft->fail(WEFT_E_INTERNAL, text);                                                 \
    }                                                                                           \
  } while (0)

static WeftStatus Dims(void) {
  int64_t v = 0;
  const WeftDim six = weft->dim_int(6), four = weft->dim_int(4);
  EXPECT(weft->dim_value(six, &v) && v == 6);
  EXPECT(weft->dim_value(weft->dim_op('+', six, four), &v) && v == 10);
  EXPECT(weft->dim_value(weft->dim_op('-', six, four), &v) && v == 2);
  EXPECT(weft->dim_value(weft->dim_op('*', six, four), &v) && v == 24);
  EXPECT(weft->dim_value(weft->dim_op('/', six, four), &v) && v == 1);
  EXPECT(weft->dim_value(weft->dim_op('%', six, four), &v) && v == 2);
  EXPECT(weft->dim_value(weft->dim_op('m', six, four), &v) && v == 4);
  EXPECT(weft->dim_value(weft->dim_op('M', six, four), NULL) == 1);
  EXPECT(weft->dim_op('+', six, NULL) == NULL && weft->dim_op('?', six, four) == NULL);
  EXPECT(weft->dim_op('/', six, weft->dim_int(0)) == NULL);
  EXPECT(weft->dim_op('*', weft->dim_int(INT64_MAX), four) == NULL);
  EXPECT(weft->dim_value(NULL, &v) == 0 && strcmp(weft->dim_text(NULL), "?") == 0);
  EXPECT(strcmp(weft->dim_text(four), "4") == 0);
  return WEFT_OK;
}

/* The graph:
 *   %r = Reshape(%x, [3, 4])
 *   %c = Concat(%r, %r) {axis = 1}
 *   %s, %t = Split(%c) {axis = 1, num_outputs = 2} */
static WeftStatus Misuse(void* user, WeftPassRun* run, WeftGraph* graph) {
  WeftNode *nodes[16], *made = NULL;
  WeftEntry entries[2], constant = {NULL, 0}, none = {NULL, 0};
  WeftDim dims[4];
  WeftDType dtype = 0;
  int32_t rank = 0;
  int64_t number = 0;
  const int64_t* numbers = NULL;
  size_t count = 0;
  double real = 0;
  const char* text = NULL;
  const WeftView* view;
  WeftNode *reshape = NULL, *concat = NULL, *split = NULL, *x = NULL;
  WeftStatus status = Dims();
  if (status != WEFT_OK) return status;

  /* Looking. */
  EXPECT((count = weft->graph_nodes(graph, nodes, 16)) == 5);
  EXPECT(weft->graph_nodes(graph, nodes, 2) == 5 && weft->graph_nodes(graph, NULL, 0) == 5);
  weft->graph_nodes(graph, nodes, 16);
  for (size_t i = 0; i < count; ++i) {
    const char* op = weft->node_op(nodes[i]);
    if (strcmp(op, "Reshape") == 0) reshape = nodes[i];
    if (strcmp(op, "Concat") == 0) concat = nodes[i];
    if (strcmp(op, "Split") == 0) split = nodes[i];
    if (strcmp(op, "") == 0) x = nodes[i];
  }
  EXPECT(reshape && concat && split && x);
  EXPECT(strcmp(weft->node_name(concat), "c") == 0 && strcmp(weft->node_op(NULL), "") == 0);
  EXPECT(weft->node_num_inputs(concat) == 2 && weft->node_num_outputs(split) == 2);
  EXPECT(weft->node_num_inputs(NULL) == 0 && weft->node_num_outputs(NULL) == 0);
  EXPECT(weft->node_input(concat, 1).node == reshape && weft->node_input(concat, 2).node == NULL);
  EXPECT(weft->node_input(concat, -1).node == NULL && weft->node_input(NULL, 0).node == NULL);
  EXPECT(weft->graph_num_uses(graph, reshape) == 2 && weft->graph_num_uses(graph, split) == 2);
  EXPECT(weft->graph_num_uses(graph, NULL) == 0);

  EXPECT(weft->node_attr_int(concat, "axis", &number) == WEFT_OK && number == 1);
  EXPECT(weft->node_attr_int(concat, "axes", &number) == WEFT_E_BAD_ATTRIBUTE);
  EXPECT(weft->node_attr_int(concat, NULL, &number) == WEFT_E_API_MISUSE);
  EXPECT(weft->node_attr_int(concat, "axis", NULL) == WEFT_E_API_MISUSE);
  EXPECT(weft->node_attr_int(NULL, "axis", &number) == WEFT_E_API_MISUSE);
  EXPECT(weft->node_attr_float(concat, "axis", &real) == WEFT_OK && real == 1);
  EXPECT(weft->node_attr_string(concat, "axis", &text) == WEFT_E_BAD_ATTRIBUTE && text == NULL);
  EXPECT(weft->node_attr_ints(concat, "axis", &numbers, &count) == WEFT_E_BAD_ATTRIBUTE);
  EXPECT(weft->node_attr_ints(concat, "axis", NULL, &count) == WEFT_E_API_MISUSE);

  entries[0].node = concat;
  entries[0].index = 0;
  EXPECT(weft->graph_type(graph, entries[0], &dtype, &rank, dims, 4) == WEFT_OK);
  EXPECT(dtype == WEFT_F32 && rank == 2 && weft->dim_value(dims[1], &number) && number == 8);
  EXPECT(weft->graph_type(graph, entries[0], NULL, &rank, dims, 1) == WEFT_OK);
  EXPECT(weft->graph_type(graph, none, &dtype, &rank, dims, 4) == WEFT_E_API_MISUSE);
  entries[0].index = 7;
  EXPECT(weft->graph_type(graph, entries[0], &dtype, &rank, dims, 4) == WEFT_E_API_MISUSE);
  EXPECT(weft->graph_constant(graph, entries[0]) == NULL &&
         weft->graph_constant(graph, none) == NULL);
  view = weft->graph_constant(graph, weft->node_input(reshape, 1));
  EXPECT(view && view->dtype == WEFT_I64 && view->rank == 1 && view->dims[0] == 2);
  EXPECT(((const int64_t*)view->data)[0] == 3 && view->num_elements == 2);

  /* Changing, wrongly. */
  entries[0].index = 0;
  entries[1] = entries[0];
  EXPECT(weft->graph_add_node(graph, "Nobody", entries, 1, NULL, NULL, &made) == WEFT_E_UNKNOWN_OP);
  EXPECT(weft->graph_add_node(graph, NULL, entries, 1, NULL, NULL, &made) == WEFT_E_API_MISUSE);
  EXPECT(weft->graph_add_node(graph, "Neg", NULL, 1, NULL, NULL, &made) == WEFT_E_API_MISUSE);
  EXPECT(weft->graph_add_node(graph, "Neg", entries, 1, NULL, NULL, NULL) == WEFT_E_API_MISUSE);
  EXPECT(weft->graph_add_node(graph, "Neg", entries, 2, NULL, NULL, &made) == WEFT_E_ARITY);
  EXPECT(weft->graph_add_node(graph, "Concat", entries, 2, "axis = ", NULL, &made) ==
         WEFT_E_SYNTAX);
  EXPECT(weft->graph_add_node(graph, "Concat", entries, 2, "axes = 1", NULL, &made) ==
         WEFT_E_BAD_ATTRIBUTE);
  EXPECT(made == NULL);
  EXPECT(weft->graph_replace(graph, split, entries, 1) == WEFT_E_API_MISUSE);
  EXPECT(weft->graph_replace(graph, split, NULL, 2) == WEFT_E_API_MISUSE);
  EXPECT(weft->graph_replace(graph, NULL, entries, 1) == WEFT_E_API_MISUSE);
  {
    const int64_t extents[2] = {3, -4}, fine[2] = {2, 1};
    const int64_t values[2] = {4, 3};
    WeftView v = {sizeof v, NULL, WEFT_F32, 2, extents, -12};
    EXPECT(weft->graph_add_constant(graph, &v, &constant) != WEFT_OK);
    v.dims = fine;
    EXPECT(weft->graph_add_constant(graph, &v, &constant) == WEFT_E_API_MISUSE); /* no data */
    v.dtype = 99;
    EXPECT(weft->graph_add_constant(graph, &v, &constant) == WEFT_E_API_MISUSE);
    v.dtype = WEFT_I64;
    v.rank = 1;
    v.data = (void*)values;
    EXPECT(weft->graph_add_constant(graph, &v, NULL) == WEFT_E_API_MISUSE);
    EXPECT(weft->graph_add_constant(graph, NULL, &constant) == WEFT_E_API_MISUSE);
    v.struct_size = 8;
    EXPECT(weft->graph_add_constant(graph, &v, &constant) == WEFT_E_API_MISUSE);
    EXPECT(constant.node == NULL);
    /* And rightly: Reshape(%x, [4, 3]) beside the other, unused; it goes when the pass ends. */
    v.struct_size = sizeof v;
    EXPECT(weft->graph_add_constant(graph, &v, &constant) == WEFT_OK);
    entries[0].node = x;
    entries[1] = constant;
    EXPECT(weft->graph_add_node(graph, "Reshape", entries, 2, "allowzero = 0", "again", &made) ==
           WEFT_OK);
    EXPECT(strcmp(weft->node_name(made), "again") == 0);
    EXPECT(weft->node_attr_int(made, "allowzero", &number) == WEFT_OK && number == 0);
  }
  {
    /* A tensor without elements has no data, whatever was given. */
    const int64_t extents[1] = {0};
    WeftView v = {sizeof v, (void*)extents, WEFT_F32, 1, extents, 0};
    EXPECT(weft->graph_add_constant(graph, &v, &constant) == WEFT_OK);
    view = weft->graph_constant(graph, constant);
    EXPECT(view && view->num_elements == 0 && view->data == NULL);
  }
  EXPECT(weft->kernel_launch(NULL, NULL, NULL) == WEFT_E_API_MISUSE);
  weft->kernel_close(NULL);
  EXPECT(weft->graph_nodes(graph, NULL, 0) == 5); /* nothing reaches what was added */
  EXPECT(weft->pass_fuel(run, "nothing", split) == 1);
  weft->pass_count(run, NULL, 1);
  (void)user;
  return WEFT_OK;
}

/* Without `needs`: types and shapes may not be there, and asking for them is status 104. */
static WeftStatus AsksTooEarly(void* user, WeftPassRun* run, WeftGraph* graph) {
  WeftNode* nodes[16];
  WeftEntry entry = {NULL, 0};
  int32_t rank;
  (void)user;
  (void)run;
  if (weft->graph_nodes(graph, nodes, 16) == 0) return WEFT_E_INTERNAL;
  entry.node = nodes[0];
  return weft->graph_type(graph, entry, NULL, &rank, NULL, 0);
}

static WeftStatus Fails(void* user, WeftPassRun* run, WeftGraph* graph) {
  (void)user;
  (void)run;
  (void)graph;
  return weft->fail(WEFT_E_LIMIT, "enough is enough");
}

static WeftStatus OddStatus(void* user, WeftPassRun* run, WeftGraph* graph) {
  (void)user;
  (void)run;
  (void)graph;
  return 77777;
}

WEFT_PLUGIN_EXPORT WeftStatus weft_plugin_init_v1(const WeftHost* host, WeftPluginInfo* info) {
  static const struct {
    const char *name, *needs;
    WeftPassFn run;
  } passes[] = {{"Misuse", "dtype, shape", Misuse},
                {"AsksTooEarly", NULL, AsksTooEarly},
                {"Fails", NULL, Fails},
                {"OddStatus", NULL, OddStatus}};
  weft = host;
  weft_plugin_describe(info, "misuse", "1.0", "passes that go wrong");
  for (size_t i = 0; i < sizeof passes / sizeof *passes; ++i) {
    WeftPassDef def = {.struct_size = sizeof def,
                       .name = passes[i].name,
                       .run = passes[i].run,
                       .needs = passes[i].needs};
    const WeftStatus status = host->register_pass(&def);
    if (status != WEFT_OK) return status;
  }
  return WEFT_OK;
}
