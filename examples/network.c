/* A network of layers: what is in it, what it computes, how it is saved and read into a smaller one.
 *
 *   cc network.c $(pkg-config --cflags --libs gradus) && ./a.out */
#include <gradus/gradus.h>

#include <stdio.h>

static gd_module *encoder(gd_ctx *ctx)
{
    gd_layer_norm_options norm = gd_layer_norm_defaults();
    norm.eps = 1e-6;
    gd_module *parts[] = {gd_embedding_new(ctx, 10, 8, NULL), gd_attention_new(ctx, 8, 2, NULL),
                          gd_layer_norm_new(ctx, 8, &norm), gd_linear_new(ctx, 8, 3, NULL),
                          gd_activation_new(ctx, "softplus")};
    return gd_sequential_new(ctx, parts, 5);
}

static void count_layers(gd_ctx *ctx, gd_module *net)
{
    gd_class *kind[] = {gd_class_sequential(ctx), gd_class_embedding(ctx),  gd_class_attention(ctx),
                        gd_class_linear(ctx),     gd_class_layer_norm(ctx), gd_class_activation(ctx),
                        gd_class_conv2d(ctx),     gd_class_mlp(ctx)};
    gd_named *modules = gd_module_modules(net, NULL);
    for (size_t k = 0; k < sizeof kind / sizeof *kind; k++) {
        int found = 0;
        for (int64_t i = 0; i < gd_named_count(modules); i++)
            found += gd_object_is(gd_module_object(gd_named_module(modules, i)), kind[k]);
        printf("%-12s %d\n", gd_class_name(kind[k]), found);
    }
}

/* The tensors of a tree as an array, for functions that take arrays. */
static double squared_norm(gd_module *net)
{
    double sum = 0;
    gd_named *parameters = gd_module_parameters(net, "*.weight");
    gd_tensor *const *weight = gd_named_tensors(parameters);
    for (int64_t i = 0; i < gd_named_count(parameters); i++)
        sum += gd_item(gd_sum(gd_square(weight[i]), NULL, false));
    return sum;
}

/* What is made in a scope leaves it with keep: here a module and the list of its parameters. */
static gd_module *made_in_a_scope(gd_ctx *ctx, gd_named **parameters)
{
    gd_scope_begin(ctx);
    gd_module *net = gd_module_keep(encoder(ctx));
    *parameters = gd_named_keep(gd_module_parameters(net, NULL));
    gd_scope_end(ctx);
    return net;
}

/* Saves a tree and reads into one that lacks its last layers: the report names what did not match, and outlives the scope. */
static gd_status read_a_part(gd_ctx *ctx, gd_module *net)
{
    gd_scope_begin(ctx);
    gd_module *first = gd_sequential_new(
        ctx, (gd_module *[]){gd_embedding_new(ctx, 10, 8, NULL), gd_attention_new(ctx, 8, 2, NULL)}, 2);
    gd_load_options options = gd_load_defaults();
    options.partial = true;
    gd_load_report *report = NULL;
    gd_status status = gd_module_save(net, "network.safetensors");
    if (!status) status = gd_module_load(first, "network.safetensors", &options, &report);
    gd_load_report_keep(report);
    gd_scope_end(ctx);
    printf("read %lld tensors; %s\n", (long long)gd_load_report_loaded(report), gd_load_report_text(report));
    gd_load_report_release(report);
    gd_tensor *bias = gd_archive_load_tensor(ctx, "network.safetensors",
                                             "3.bias"); /* one tensor of the file */
    return status ? status : gd_npy_save(bias, "bias.npy");
}

int main(void)
{
    gd_ctx *ctx = gd_ctx_new(NULL);
    gd_scope_begin(ctx);
    gd_named *parameters = NULL;
    gd_module *net = made_in_a_scope(ctx, &parameters);
    gd_status status = gd_module_cpu(net);
    count_layers(ctx, net);
    printf("%lld parameters, squared norm of the weights %.3f\n", (long long)gd_named_count(parameters),
           squared_norm(net));

    /* keywords reach the function of the layer that is called */
    gd_module *attention = gd_module_get_module(net, "1");
    gd_tensor *x = gd_randn(ctx, GD_F32, 2, (int64_t[]){5, 8});
    gd_tensor *y = gd_module_call_with(attention, x, GD_KWARGS(gd_int_argument("causal", 1)));
    gd_tensor *first = gd_module_call(attention, gd_slice(x, "0", 0, 1, 1));
    gd_tensor *gap = gd_max(gd_abs(gd_sub(gd_slice(y, "0", 0, 1, 1), first)), NULL, false);
    printf("causal: the first position sees itself only, difference %g\n", gd_item(gap));

    if (!status) status = read_a_part(ctx, net);
    if (gd_warning_count(ctx)) printf("last warning: %s\n", gd_warning_text(ctx));
    gd_scope_end(ctx);
    if (!status) status = gd_error(ctx);
    if (status) fprintf(stderr, "network: %s\n", gd_error_text(ctx));
    gd_ctx_free(ctx);
    return status != GD_OK;
}
