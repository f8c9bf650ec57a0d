#!/usr/bin/env python3
"""sklearn_models.py [--all] [--keep FOLDER] [NAME ...]: estimators of scikit-learn, fitted, converted by skl2onnx, and run by
ONNX Runtime and by weft. Without --all, or names (beginnings of them), every sixth.

Needs numpy, onnx, onnxruntime, scikit-learn, skl2onnx and the command weft (WEFT=build/bin/weft). Prints a line for each model
that differs, and the count."""
import argparse
import logging
import pathlib
import sys
import tempfile
import warnings

import numpy as np
import onnx
import skl2onnx
from skl2onnx.common.data_types import DictionaryType, FloatTensorType, Int64TensorType, StringTensorType
from sklearn import (calibration, cluster, compose, cross_decomposition, decomposition, discriminant_analysis, ensemble,
                     feature_extraction, feature_selection, gaussian_process, impute, linear_model, mixture, model_selection,
                     multiclass, multioutput, naive_bayes, neighbors, neural_network, pipeline, preprocessing, random_projection,
                     svm, tree)

import peer

warnings.simplefilter("ignore")
logging.disable(logging.WARNING)

ROWS, TEST_ROWS, FEATURES = 120, 25, 6
OPSETS = {"": 18, "ai.onnx.ml": 3}
TYPES = {"f32": np.float32, "f64": np.float64, "i64": np.int64}


def features(dtype, seed=0, rows=ROWS + TEST_ROWS, positive=False):
    x = np.random.default_rng(seed).normal(size=(rows, FEATURES)) * 2
    x = np.abs(x) if positive else x
    return (np.round(x * 3) if dtype == "i64" else x).astype(TYPES[dtype])


def classes(x, count, strings=False):
    score = x[:, 0] + 0.5 * x[:, 1] * x[:, 2] - x[:, 3]
    y = np.digitize(score, np.quantile(score, np.linspace(0, 1, count + 1)[1:-1]))
    return np.array(["low", "middle", "high", "top"])[y] if strings else y


def target(x, columns=1):
    x = x.astype("f8")
    y = np.stack([np.sin(x[:, k]) + 0.3 * x[:, k + 1] * x[:, 0] for k in range(columns)], 1)
    return y[:, 0] if columns == 1 else y


class Model:
    """`make`: the estimator, unfitted; `x`, `y`: rows to fit and to test with; `types`: of the inputs, where x does not say."""

    def __init__(self, name, make, x, y=None, options=None, types=None, feeds=None, tolerance=1e-4):
        self.name, self.make, self.x, self.y, self.options = name, make, x, y, options
        self.types, self.feeds, self.tolerance = types, feeds, tolerance

    def save(self, path):
        """Writes the model; the inputs that it is run with."""
        n = ROWS if len(self.x) > ROWS else len(self.x)
        fitted = self.make.fit(self.x[:n]) if self.y is None else self.make.fit(self.x[:n], self.y[:n])
        test = self.x[n:] if len(self.x) > n else self.x
        options = {id(fitted): self.options} if self.options else None
        proto = skl2onnx.to_onnx(fitted, None if self.types else self.x[:1], initial_types=self.types, options=options,
                                 target_opset=OPSETS)
        onnx.save(proto, path)
        if self.feeds is not None:
            return self.feeds
        return {proto.graph.input[0].name: test}


MODELS = []


def add(*args, **kw):
    MODELS.append(Model(*args, **kw))


def name_of(estimator):
    text = repr(estimator).replace("\n", "").replace("  ", "")
    return text if len(text) < 90 else text[:87] + "..."


# ---- classifiers ----
lm, en, nb, nn = linear_model, ensemble, naive_bayes, neighbors
CLASSIFIERS = [
    lambda: lm.LogisticRegression(), lambda: lm.LogisticRegression(C=0.1, fit_intercept=False), lambda: lm.LogisticRegressionCV(Cs=3),
    lambda: lm.RidgeClassifier(), lambda: lm.RidgeClassifierCV(), lambda: lm.Perceptron(random_state=0),
    lambda: lm.PassiveAggressiveClassifier(random_state=0),
    lambda: lm.SGDClassifier(random_state=0), lambda: lm.SGDClassifier(loss="log_loss", random_state=0),
    lambda: lm.SGDClassifier(loss="modified_huber", random_state=0),
    lambda: svm.LinearSVC(), lambda: svm.SVC(), lambda: svm.SVC(kernel="linear"), lambda: svm.SVC(kernel="poly", degree=2, coef0=1),
    lambda: svm.SVC(kernel="sigmoid", gamma=0.02), lambda: svm.SVC(probability=True, random_state=0), lambda: svm.NuSVC(nu=0.3),
    lambda: svm.NuSVC(nu=0.3, probability=True, random_state=0),
    lambda: tree.DecisionTreeClassifier(random_state=0), lambda: tree.ExtraTreeClassifier(max_depth=4, random_state=0),
    lambda: en.RandomForestClassifier(12, max_depth=6, random_state=0), lambda: en.ExtraTreesClassifier(8, random_state=0),
    lambda: en.GradientBoostingClassifier(n_estimators=10, random_state=0),
    lambda: en.HistGradientBoostingClassifier(max_iter=8, min_samples_leaf=5, random_state=0),
    lambda: en.AdaBoostClassifier(n_estimators=6, random_state=0),
    lambda: en.BaggingClassifier(tree.DecisionTreeClassifier(max_depth=3), 4, random_state=0),
    lambda: en.BaggingClassifier(lm.LogisticRegression(), 3, random_state=0),
    lambda: en.VotingClassifier([("a", lm.LogisticRegression()), ("b", nb.GaussianNB())], voting="soft", flatten_transform=False),
    lambda: en.VotingClassifier([("a", lm.LogisticRegression()), ("b", tree.DecisionTreeClassifier(max_depth=3))], flatten_transform=False),
    lambda: en.StackingClassifier([("a", nb.GaussianNB()), ("b", tree.DecisionTreeClassifier(max_depth=3))], cv=3),
    lambda: nn.KNeighborsClassifier(), lambda: nn.KNeighborsClassifier(3, weights="distance"),
    lambda: nn.KNeighborsClassifier(4, metric="manhattan"), lambda: nn.RadiusNeighborsClassifier(8.0),
    lambda: nb.GaussianNB(), lambda: nb.BernoulliNB(binarize=0.5),
    lambda: discriminant_analysis.LinearDiscriminantAnalysis(), lambda: discriminant_analysis.QuadraticDiscriminantAnalysis(),
    lambda: neural_network.MLPClassifier((8,), max_iter=60, random_state=0),
    lambda: neural_network.MLPClassifier((6, 5), activation="tanh", max_iter=60, random_state=0),
    lambda: neural_network.MLPClassifier((6,), activation="logistic", max_iter=60, random_state=0),
    lambda: gaussian_process.GaussianProcessClassifier(gaussian_process.kernels.RBF(2.0), optimizer=None),
    lambda: calibration.CalibratedClassifierCV(lm.LogisticRegression(), cv=2),
    lambda: calibration.CalibratedClassifierCV(nb.GaussianNB(), method="isotonic", cv=2),
    lambda: multiclass.OneVsRestClassifier(lm.LogisticRegression()), lambda: multiclass.OneVsOneClassifier(lm.LogisticRegression()),
    lambda: multiclass.OneVsRestClassifier(tree.DecisionTreeClassifier(max_depth=3)),
    lambda: model_selection.GridSearchCV(lm.LogisticRegression(), {"C": [0.5, 1.0]}, cv=2),
    lambda: en.BaggingClassifier(nn.KNeighborsClassifier(3), 2, random_state=0),
]
for make in CLASSIFIERS:
    for count, dtype, strings, zipmap in ((2, "f32", True, True), (3, "f32", False, False), (4, "i64", True, False), (2, "f64", False, "columns")):
        if dtype == "f64" and name_of(make()).startswith(("SVC", "NuSVC", "LinearSVC")):
            continue
        x = features(dtype)
        add(f"{name_of(make())} {count} {dtype} {'strings' if strings else 'ints'} zipmap={zipmap}", make(), x, classes(x, count, strings),
            options={"zipmap": zipmap})
for make in (lambda: nb.MultinomialNB(), lambda: nb.ComplementNB(), lambda: nb.CategoricalNB(min_categories=40)):
    for count, dtype in ((2, "f32"), (3, "i64")):
        x = features("i64", 3, positive=True).astype(TYPES[dtype])
        add(f"{name_of(make())} {count} {dtype}", make(), x, classes(x, count, True))
x = features("f32")
add("MultiOutputClassifier", multioutput.MultiOutputClassifier(lm.LogisticRegression()), x, np.stack([classes(x, 2), classes(x[:, ::-1], 3)], 1))
add("TunedThresholdClassifierCV", model_selection.TunedThresholdClassifierCV(lm.LogisticRegression(), cv=2), x, classes(x, 2))
for count in (2, 3):
    for dtype in ("f32", "f64"):
        x = features(dtype).copy()
        x[::7, 2] = np.nan
        add(f"HistGradientBoostingClassifier with NaN {count} {dtype}",
            en.HistGradientBoostingClassifier(max_iter=6, min_samples_leaf=5, random_state=0), x, classes(np.nan_to_num(x), count))

# ---- regressors ----
REGRESSORS = [
    lambda: lm.LinearRegression(), lambda: lm.Ridge(), lambda: lm.RidgeCV(), lambda: lm.Lasso(0.1), lambda: lm.LassoCV(cv=2),
    lambda: lm.ElasticNet(0.1), lambda: lm.ElasticNetCV(cv=2), lambda: lm.Lars(), lambda: lm.LarsCV(cv=2), lambda: lm.LassoLars(0.01),
    lambda: lm.LassoLarsCV(cv=2), lambda: lm.LassoLarsIC(), lambda: lm.OrthogonalMatchingPursuit(), lambda: lm.OrthogonalMatchingPursuitCV(cv=2),
    lambda: lm.BayesianRidge(), lambda: lm.ARDRegression(), lambda: lm.HuberRegressor(), lambda: lm.TheilSenRegressor(random_state=0),
    lambda: lm.RANSACRegressor(random_state=0), lambda: lm.QuantileRegressor(alpha=0.1), lambda: lm.SGDRegressor(random_state=0),
    lambda: lm.PassiveAggressiveRegressor(random_state=0), lambda: lm.TweedieRegressor(power=0), lambda: svm.LinearSVR(),
    lambda: svm.SVR(), lambda: svm.SVR(kernel="poly", degree=2), lambda: svm.SVR(kernel="sigmoid", gamma=0.02), lambda: svm.NuSVR(),
    lambda: tree.DecisionTreeRegressor(random_state=0), lambda: tree.ExtraTreeRegressor(max_depth=5, random_state=0),
    lambda: en.RandomForestRegressor(10, max_depth=7, random_state=0), lambda: en.ExtraTreesRegressor(8, random_state=0),
    lambda: en.GradientBoostingRegressor(n_estimators=12, random_state=0), lambda: en.AdaBoostRegressor(n_estimators=5, random_state=0),
    lambda: en.HistGradientBoostingRegressor(max_iter=8, min_samples_leaf=5, random_state=0),
    lambda: en.BaggingRegressor(tree.DecisionTreeRegressor(max_depth=3), 4, random_state=0),
    lambda: en.VotingRegressor([("a", lm.Ridge()), ("b", tree.DecisionTreeRegressor(max_depth=3))]),
    lambda: en.StackingRegressor([("a", lm.Ridge()), ("b", tree.DecisionTreeRegressor(max_depth=3))], cv=3),
    lambda: nn.KNeighborsRegressor(), lambda: nn.KNeighborsRegressor(3, weights="distance"), lambda: nn.RadiusNeighborsRegressor(8.0),
    lambda: neural_network.MLPRegressor(hidden_layer_sizes=(8,), max_iter=60, random_state=0),
    lambda: gaussian_process.GaussianProcessRegressor(gaussian_process.kernels.RBF(2.0), alpha=0.1, optimizer=None),
    lambda: gaussian_process.GaussianProcessRegressor(
        gaussian_process.kernels.ConstantKernel(2.0) * gaussian_process.kernels.RationalQuadratic(), alpha=0.1, optimizer=None),
    lambda: cross_decomposition.PLSRegression(2), lambda: model_selection.GridSearchCV(lm.Ridge(), {"alpha": [0.5, 1.0]}, cv=2),
]
for make in REGRESSORS:
    for dtype in ("f32", "f64", "i64"):
        if dtype == "f64" and name_of(make()).startswith(("SVR", "NuSVR", "LinearSVR")):
            continue
        if dtype == "i64" and not name_of(make()).startswith(("LinearRegression", "Ridge(", "SVR()", "Decision", "Random", "Gradient", "Lasso(")):
            continue
        x = features(dtype)
        add(f"{name_of(make())} {dtype}", make(), x, target(x))
x = features("f32")
for make in (lambda: lm.PoissonRegressor(), lambda: lm.GammaRegressor(), lambda: lm.TweedieRegressor(power=1.5, link="log")):
    add(f"{name_of(make())}", make(), x, np.exp(0.1 * target(x)))
for make in (lambda: lm.MultiTaskLasso(0.1), lambda: lm.MultiTaskLassoCV(cv=2), lambda: lm.MultiTaskElasticNet(0.1),
             lambda: lm.MultiTaskElasticNetCV(cv=2), lambda: en.RandomForestRegressor(6, max_depth=5, random_state=0),
             lambda: tree.DecisionTreeRegressor(max_depth=4), lambda: nn.KNeighborsRegressor(4), lambda: lm.Ridge(),
             lambda: multioutput.MultiOutputRegressor(en.GradientBoostingRegressor(n_estimators=4)),
             lambda: neural_network.MLPRegressor(hidden_layer_sizes=(6,), max_iter=60, random_state=0), lambda: cross_decomposition.PLSRegression(2)):
    add(f"{name_of(make())} of 3", make(), x, target(x, 3))

# ---- transformers and the rest ----
pp, fs, dc = preprocessing, feature_selection, decomposition
TRANSFORMERS = [
    lambda: pp.StandardScaler(), lambda: pp.StandardScaler(with_mean=False), lambda: pp.MinMaxScaler(), lambda: pp.MinMaxScaler(clip=True),
    lambda: pp.MaxAbsScaler(), lambda: pp.RobustScaler(), lambda: pp.Normalizer(), lambda: pp.Normalizer("l1"), lambda: pp.Normalizer("max"),
    lambda: pp.Binarizer(threshold=0.3), lambda: pp.PolynomialFeatures(2), lambda: pp.PolynomialFeatures(2, interaction_only=True),
    lambda: pp.PowerTransformer(), lambda: pp.QuantileTransformer(n_quantiles=20), lambda: pp.KBinsDiscretizer(4, encode="ordinal"),
    lambda: pp.KBinsDiscretizer(4, encode="onehot-dense"), lambda: pp.KBinsDiscretizer(3, strategy="uniform", encode="onehot"),
    lambda: pp.FunctionTransformer(), lambda: impute.SimpleImputer(), lambda: impute.SimpleImputer(strategy="median"),
    lambda: impute.KNNImputer(), lambda: dc.PCA(3), lambda: dc.PCA(3, whiten=True), lambda: dc.IncrementalPCA(3), lambda: dc.TruncatedSVD(3),
    lambda: dc.KernelPCA(3, kernel="rbf"), lambda: random_projection.GaussianRandomProjection(3, random_state=0),
    lambda: fs.VarianceThreshold(0.1), lambda: cluster.KMeans(4, n_init=2, random_state=0), lambda: cluster.MiniBatchKMeans(4, n_init=2, random_state=0),
    lambda: mixture.GaussianMixture(3, random_state=0), lambda: mixture.GaussianMixture(2, covariance_type="diag", random_state=0),
    lambda: mixture.GaussianMixture(2, covariance_type="spherical", random_state=0), lambda: mixture.BayesianGaussianMixture(n_components=2, random_state=0),
    lambda: en.IsolationForest(n_estimators=8, random_state=0), lambda: nn.LocalOutlierFactor(novelty=True), lambda: svm.OneClassSVM(),
    lambda: lm.SGDOneClassSVM(random_state=0), lambda: nn.NearestNeighbors(n_neighbors=3, radius=None), lambda: nn.KNeighborsTransformer(n_neighbors=3),
    lambda: en.RandomTreesEmbedding(n_estimators=4, max_depth=3, random_state=0),
    lambda: pipeline.FeatureUnion([("a", pp.StandardScaler()), ("b", dc.PCA(2))]),
]
for make in TRANSFORMERS:
    for dtype in ("f32", "f64"):
        if dtype == "f64" and name_of(make()).startswith("OneClassSVM"):
            continue
        x = features(dtype)
        if "Imputer" in name_of(make()):
            x[::5, 1] = np.nan
        add(f"{name_of(make())} {dtype}", make(), x)
for make in (lambda: fs.SelectKBest(k=3), lambda: fs.SelectPercentile(percentile=50), lambda: fs.SelectFpr(alpha=0.5), lambda: fs.SelectFdr(alpha=0.9),
             lambda: fs.SelectFwe(alpha=0.9), lambda: fs.GenericUnivariateSelect(mode="k_best", param=3), lambda: fs.RFE(lm.LogisticRegression()),
             lambda: fs.RFECV(lm.LogisticRegression(), cv=2), lambda: fs.SelectFromModel(lm.LogisticRegression()),
             lambda: nn.NeighborhoodComponentsAnalysis(2, random_state=0)):
    for dtype in ("f32", "i64"):
        x = features(dtype)
        add(f"{name_of(make())} {dtype}", make(), x, classes(x, 2))

rng = np.random.default_rng(5)
WORDS = np.array(["red", "green", "blue", "cyan"])
cells = WORDS[rng.integers(0, 4, (40, 2))].astype(object)
codes = rng.integers(0, 5, (40, 2))
strings, ints = [("x", StringTensorType([None, 2]))], [("x", Int64TensorType([None, 2]))]
for make in (lambda: pp.OneHotEncoder(), lambda: pp.OneHotEncoder(handle_unknown="ignore"), lambda: pp.OneHotEncoder(drop="first"), lambda: pp.OrdinalEncoder(),
             lambda: pp.OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)):
    add(f"{name_of(make())} strings", make(), cells, types=strings)
    add(f"{name_of(make())} i64", make(), codes, types=ints)
add("LabelEncoder strings", pp.LabelEncoder(), cells[:, 0], types=[("x", StringTensorType([None]))])
add("LabelEncoder i64", pp.LabelEncoder(), codes[:, 0], types=[("x", Int64TensorType([None]))])
add("LabelEncoder f32", pp.LabelEncoder(), codes[:, 0].astype("f4"), types=[("x", FloatTensorType([None]))])
add("LabelBinarizer i64", pp.LabelBinarizer(), codes[:, 0], types=[("x", Int64TensorType([None]))])
add("TargetEncoder strings", pp.TargetEncoder(random_state=0), cells, rng.normal(size=40), types=strings)
add("TargetEncoder i64", pp.TargetEncoder(random_state=0), codes, rng.integers(0, 2, 40), types=ints)
add("FeatureHasher strings", feature_extraction.FeatureHasher(8, input_type="string", alternate_sign=False), cells, types=strings)
TEXTS = np.array(["the cat sat on the mat", "a dog, and the cat!", "Mat on mat on MAT", "nothing here", "dogs sit; cats sat"], object)
text = feature_extraction.text
for make in (lambda: text.CountVectorizer(), lambda: text.CountVectorizer(ngram_range=(1, 2)), lambda: text.CountVectorizer(stop_words=["the", "on"]),
             lambda: text.CountVectorizer(lowercase=False, binary=True), lambda: text.TfidfVectorizer(), lambda: text.TfidfVectorizer(norm="l1", sublinear_tf=True),
             lambda: text.TfidfVectorizer(ngram_range=(2, 3), use_idf=False), lambda: text.CountVectorizer(analyzer="char", ngram_range=(1, 3)),
             lambda: pipeline.make_pipeline(text.CountVectorizer(), text.TfidfTransformer())):
    add(f"{name_of(make())}", make(), TEXTS, options={"locale": "C"} if not isinstance(make(), pipeline.Pipeline) else None,
        types=[("x", StringTensorType([None, 1]))], feeds={"x": TEXTS.reshape(-1, 1)})
add("TfidfTransformer", text.TfidfTransformer(), features("f32", positive=True))
words = [{"a": 1.0, "b": 2.0}, {"b": 3.0, "c": 1.5}]
add("DictVectorizer", feature_extraction.DictVectorizer(), words,
    types=[("x", DictionaryType(StringTensorType([1]), FloatTensorType([1])))], feeds={"x": words[1]})

# ---- pipelines ----
for dtype in ("f32", "f64"):
    x = features(dtype)
    for count in (2, 3):
        for last in (lambda: lm.LogisticRegression(), lambda: en.RandomForestClassifier(5, max_depth=4, random_state=0), lambda: svm.SVC(probability=True, random_state=0)):
            if dtype == "f64" and name_of(last()).startswith("SVC"):
                continue
            add(f"StandardScaler, PCA, {name_of(last())} {count} {dtype}", pipeline.make_pipeline(pp.StandardScaler(), dc.PCA(4), last()), x, classes(x, count, True))
    add(f"SimpleImputer, MinMaxScaler, Ridge {dtype}", pipeline.make_pipeline(impute.SimpleImputer(), pp.MinMaxScaler(), lm.Ridge()), x, target(x))
    add(f"PolynomialFeatures, LinearRegression {dtype}", pipeline.make_pipeline(pp.PolynomialFeatures(2), lm.LinearRegression()), x, target(x))


class Table(Model):
    """A ColumnTransformer over columns of strings and of numbers, each an input of the model."""

    def save(self, path):
        x, y = self.x, self.y
        rows = np.empty((len(x[0]), 4), object)
        rows[:, :2], rows[:, 2:] = x[0], x[1]
        fitted = self.make.fit(rows, y)
        proto = skl2onnx.to_onnx(fitted, initial_types=[("words", StringTensorType([None, 2])), ("numbers", FloatTensorType([None, 2]))],
                                 options={id(fitted): self.options} if self.options else None, target_opset=OPSETS)
        onnx.save(proto, path)
        return {"words": x[0], "numbers": x[1]}


numbers = rng.normal(size=(40, 2)).astype("f4")
for encoder in (lambda: pp.OneHotEncoder(handle_unknown="ignore"), lambda: pp.OrdinalEncoder()):
    for scaler in (lambda: pp.StandardScaler(), lambda: impute.SimpleImputer()):
        for last in (lambda: lm.LogisticRegression(), lambda: tree.DecisionTreeClassifier(max_depth=4), lambda: en.GradientBoostingRegressor(n_estimators=5),
                     lambda: lm.SGDClassifier(loss="log_loss", random_state=0)):
            both = compose.ColumnTransformer([("w", encoder(), [0, 1]), ("n", scaler(), [2, 3])])
            MODELS.append(Table(f"ColumnTransformer({name_of(encoder())}, {name_of(scaler())}), {name_of(last())}", pipeline.make_pipeline(both, last()),
                                (cells, numbers), rng.integers(0, 3, 40)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--keep")
    args = parser.parse_args()
    chosen = [m for m in MODELS if any(m.name.startswith(n) for n in args.names)] if args.names else MODELS if args.all else MODELS[::6]
    wrong, count, neither = 0, 0, []
    with tempfile.TemporaryDirectory() as folder:
        for i, model in enumerate(chosen):
            path = pathlib.Path(args.keep or folder, f"{i}.onnx")
            try:
                feeds = model.save(path)
                s = peer.session(path)
                want = dict(zip([o.name for o in s.get_outputs()], s.run(None, feeds)))
            except Exception as e:  # of scikit-learn, skl2onnx or ONNX Runtime
                neither.append(f"{model.name}: {str(e).splitlines()[0][:200] if str(e) else type(e)}")
                continue
            count += 1
            said = peer.differs(path, feeds, model.tolerance, want)
            if said:
                wrong += 1
                print(f"{i} {model.name}: {said[:600]}", flush=True)
    for text in neither:
        print(f"not converted, or not run by ONNX Runtime: {text}")
    print(f"{count - wrong} of {count} equal")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
