/* A classifier of a table: trains, says how good it is on rows it has not seen, and predicts. */
#include <gradus/gradus.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    gd_ctx *ctx = gd_ctx_new(NULL);
    gd_table *flowers = gd_table_load(ctx, argc > 1 ? argv[1] : "examples/data/flowers.csv", NULL);
    gd_train_spec spec = gd_train_defaults();
    spec.target = "kind";
    spec.model = "mlp(32)";
    gd_model *model = gd_train(ctx, flowers, &spec);
    gd_tensor *p = gd_model_predict(model, flowers); /* probabilities [rows, classes] */
    if (model) printf("validation accuracy %.3f\n", gd_model_result(model)->validation.accuracy);
    for (int k = 0; k < gd_model_classes(model) && p; k++)
        printf("the first flower is %s: %.3f\n", gd_model_class(model, k), gd_at(p, (int64_t[]){0, k}));
    int failed = gd_error(ctx) || gd_model_save(model, "flowers.safetensors");
    if (failed) fprintf(stderr, "%s\n", gd_error_text(ctx));
    gd_release(p);
    gd_model_free(model);
    gd_table_free(flowers);
    gd_ctx_free(ctx);
    return failed;
}
